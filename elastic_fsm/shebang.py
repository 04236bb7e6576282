"""A program's first line: whether what it names to run the program can be run itself."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["fault_of_first_line", "is_program"]

# Bytes of the first line that Linux reads.
_LONGEST = 256
_BLANKS = re.compile(r"[ \t]+")
# Where Linux tells which other files it can run, by their first bytes or the ends of their names.
_FORMATS = "/proc/sys/fs/binfmt_misc"


def fault_of_first_line(program: Path, folder: Path, env: Mapping[str, str]) -> str:
    """What is wrong, and after a semicolon what to do; empty where nothing is known to be.

    ``folder`` is where the program is started, ``env`` what is laid over our environment for it.
    """
    try:
        with program.open("rb") as file:
            head = file.read(_LONGEST)
    except OSError:  # what may be executed need not be readable
        return ""
    if head.startswith(b"#!"):
        line = os.fsdecode(head[2:].partition(b"\n")[0])
        return _fault(_BLANKS.split(line.strip(" \t"), maxsplit=1), folder, env)
    if _is_text(head) and _none_is_registered():
        return "does not say what runs it; write it into the first line, as in #!/bin/sh"
    return ""


def is_program(path: Path) -> bool:
    """Whether it is a file that may be executed."""
    return path.is_file() and os.access(path, os.X_OK)


def _fault(words: Sequence[str], folder: Path, env: Mapping[str, str]) -> str:
    interpreter, *rest = words
    if not interpreter:
        return "names nothing in its first line that runs it; write it there, as in #!/bin/sh"
    if not is_program(path := folder / interpreter):
        return _missing(interpreter, "is no program" if path.exists() else "is not there")
    if os.path.basename(interpreter) == "env" and (name := _asked_of_env("".join(rest))):
        import shutil  # brings three compressors along, which few programs are worth

        if shutil.which(name, path=env.get("PATH")) is None:
            return _missing(name, "is not on PATH")
    return ""


def _missing(name: str, how: str) -> str:
    if name.endswith("\r"):
        return (
            "has the line ends of Windows, which are taken for a part of a name; use those of Unix"
        )
    if _BLANKS.search(name):
        how = f"is one word to Linux; write #!/usr/bin/env -S {name}"
        return f"is to be run by {name!r}, which {how}"
    return f"is to be run by {name!r}, which {how}; install that, or mend the first line"


def _asked_of_env(rest: str) -> str:
    """The program of ``#!/usr/bin/env python3``; empty where there is more to it.

    Linux hands over the rest of the line as one word, with all its blanks.
    """
    name = rest if sys.platform == "linux" else _BLANKS.split(rest)[0]
    return "" if name.startswith("-") or "=" in name else name


def _is_text(head: bytes) -> bool:
    """No system knows by itself how to run what is nothing but text."""
    return not head.strip(bytes(range(32, 127)) + b"\t\r\n")


def _none_is_registered() -> bool:
    """Whether Linux was told of no other kind of program; False also where that is not known.

    The folder is empty where it is not mounted, as in containers: what the host has registered
    goes for them, too.
    """
    try:
        return set(os.listdir(_FORMATS)) == {"register", "status"}
    except OSError:
        return False

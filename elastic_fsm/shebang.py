"""A program's first line: whether what it names to run the program can be run itself."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["fault_of_first_line", "fault_of_place", "is_program"]

# Bytes of the first line that Linux reads.
_LONGEST = 256
_BLANKS = re.compile(r"[ \t]+")
# Where Linux tells which other files it can run, by their first bytes or the ends of their names.
_FORMATS = "/proc/sys/fs/binfmt_misc"
# What Linux runs one by the other's first line, the program itself included.
_MOST_SCRIPTS = 5
_TOO_MANY = (
    "is run by a script, which is run by another, and so on for too long; "
    "name a program that is no script in the first line"
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# These names tell what is inside where nobody may look, and no system is told to run it otherwise.
_SHELL_SCRIPTS = (".sh", ".bash", ".zsh", ".ksh")


def fault_of_first_line(program: Path, folder: Path, env: Mapping[str, str]) -> str:
    """What is wrong, and after a semicolon what to do; empty where nothing is known to be.

    ``folder`` is where the program is started, ``env`` what is laid over our environment for it.
    """
    return _fault(program, folder, env, 1)


def fault_of_place(path: Path) -> str:
    """Why the system does not get to a file or folder, told alike; empty for one not there."""
    try:
        os.stat(path)
    except PermissionError:
        return "cannot be reached; allow to enter the folders above it, as by chmod +x"
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "goes round in a circle of links; make the link anew"
        if os.path.islink(path):
            return f"is a link to {os.readlink(path)!r}, which is not there; make the link anew"
    return ""


def is_program(path: Path) -> bool:
    """Whether it is a file that may be executed."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _fault(program: Path, folder: Path, env: Mapping[str, str], scripts: int) -> str:
    """``scripts`` counts this one and those that it is to run."""
    try:
        with program.open("rb") as file:
            head = file.read(_LONGEST)
    except OSError:  # what may be executed need not be readable, but for a script
        if program.suffix in _SHELL_SCRIPTS:
            return f"may not be read by what runs it; allow it: chmod +r {program}"
        return ""
    if head.startswith(b"#!"):
        line = os.fsdecode(head[2:].partition(b"\n")[0])
        words = _BLANKS.split(line.strip(" \t"), maxsplit=1)
        return _fault_of_words(words, folder, env, scripts)
    if head.startswith(_BYTE_ORDER_MARK + b"#!") and _is_of_no_kind(program):
        return "begins with a byte order mark, so that nothing sees its first line; save it without"
    if _is_text(head) and _is_of_no_kind(program, head):
        return "does not say what runs it; write it into the first line, as in #!/bin/sh"
    return ""


def _fault_of_words(
    words: Sequence[str], folder: Path, env: Mapping[str, str], scripts: int
) -> str:
    interpreter, *rest = words
    if not interpreter:
        return "names nothing in its first line that runs it; write it there, as in #!/bin/sh"
    if not is_program(path := folder / interpreter):
        return _missing(interpreter, _how_missing(path))
    if scripts > _MOST_SCRIPTS:
        return _TOO_MANY
    if fault := _fault(path, folder, env, scripts + 1):
        nested = fault != _TOO_MANY
        return f"is to be run by {interpreter!r}, which {fault}" if nested else fault
    if os.path.basename(interpreter) == "env" and (name := _asked_of_env("".join(rest))):
        import shutil  # brings three compressors along, which few programs are worth

        if shutil.which(name, path=env.get("PATH")) is None:
            return _missing(name, "is not on PATH")
    return ""


def _how_missing(path: Path) -> str:
    if os.path.exists(path):
        return "is no program"
    return fault_of_place(path).partition("; ")[0] or "is not there"


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


def _is_of_no_kind(program: Path, head: bytes = b"") -> bool:
    """Whether Linux cannot have been told how to run it, by the end of its name or by ``head``, the
    first bytes that may tell."""
    is_shell_script = program.suffix in _SHELL_SCRIPTS
    return is_shell_script or not (head or program.suffix) or _none_is_registered()


def _none_is_registered() -> bool:
    """Whether Linux was told of no other kind of program; False also where that is not known.

    The folder is empty where it is not mounted, as in containers: what the host has registered
    goes for them, too.
    """
    try:
        return set(os.listdir(_FORMATS)) == {"register", "status"}
    except OSError:
        return False

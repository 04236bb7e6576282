"""The words of ``elastic-fsm run``: options, overrides, and the workers' command.

The command begins at ``--``, at ``-m``, or at the first word that is neither an option nor an
override, and from there on every word belongs to it, as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.problems import BadInput, closest, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["RunWords", "split_words", "take_options"]

_OVERRIDE = re.compile(r"(\+{1,2})?[A-Za-z_][\w.@/:-]*=|~[A-Za-z_]", re.ASCII)
_FLAGS = {"--dry-run": "dry_run", "--origin": "origin", "--help": "help", "-h": "help"}
_WITH_VALUE = ("-n", "-c", "--local-world-size", "--config", "--inject")


@dataclass(slots=True)
class RunWords:
    """A command line, taken apart."""

    overrides: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    module: bool = False
    job_file: Path | None = None
    inject: Path | None = None
    flags: set[str] = field(default_factory=set)

    def refuse_command(self) -> None:
        """For verbs that start nothing. Raises :class:`BadInput` when there is a command."""
        if self.command:
            word = self.command[0]
            fix = f"a job file is named by -c {word}" if word.endswith((".yaml", ".yml")) else ""
            raise _bad(f"{word!r} means nothing here", fix)


def split_words(argv: Sequence[str]) -> RunWords:
    """Take a command line apart. Raises :class:`BadInput` for an option that does not exist."""
    words = RunWords()
    rest = iter(argv)
    for word in rest:
        if word == "--":
            words.command = list(rest)
        elif word == "-m":
            words.module = True
            words.command = list(rest)
            if not words.command:
                raise _bad("-m needs the name of a module", "-m pkg.train")
        elif word.startswith("-") and word != "-":
            _option(word, rest, words)
        elif _OVERRIDE.match(word):
            words.overrides.append(word)
        else:
            words.command = [word, *rest]
    return words


def take_options(
    argv: Sequence[str], *, flags: Sequence[str] = (), valued: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """A verb's own options by name (a flag's value is empty), and the words that are left.

    Raises :class:`BadInput` for an option without its value.
    """
    found: dict[str, str] = {}
    left: list[str] = []
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in flags:
            found[word] = ""
        elif name in valued:
            found[name] = value if equals else next(rest, "")
            if not found[name]:
                raise _bad(f"{name} needs a value", f"{name}=…")
        else:
            _check_spelling(name, [*flags, *valued])
            left.append(word)
    return found, left


def _check_spelling(name: str, options: Sequence[str]) -> None:
    """A word that is no option of any verb may be meant as one of this verb."""
    known = name in _FLAGS or name in _WITH_VALUE
    if name.startswith("--") and not known and (meant := closest(name, options)):
        raise _bad(f"unknown option {name}", f"did you mean {meant!r}?")


def _option(word: str, rest: Iterator[str], words: RunWords) -> None:
    if word in _FLAGS:
        words.flags.add(_FLAGS[word])
        return
    name, value = _named_value(word)
    if name not in _WITH_VALUE:
        raise _unknown(name, value, rest)
    if not value:
        value = next(rest, "")
    if not value:
        example = {"-n": "4", "--inject": "crash.txt"}.get(name, "job.yaml")
        raise _bad(f"{name} needs a value", f"{name} {example}")
    if name in ("-n", "--local-world-size"):
        words.overrides.append(f"spec.local_world_size={value}")
    elif name == "--inject":
        words.inject = Path(value)
    else:
        words.job_file = Path(value)


def _named_value(word: str) -> tuple[str, str]:
    """``-n4``, ``-n=4`` and ``--config=job.yaml`` as name and value."""
    if word.startswith("--"):
        name, _, value = word.partition("=")
        return name, value
    return word[:2], word[2:].removeprefix("=")


def _unknown(name: str, value: str, rest: Iterator[str]) -> BadInput:
    from elastic_fsm.config import torchrun_hint

    fix = torchrun_hint(name, value or next(rest, ""))
    fix = fix or did_you_mean(name, [*_FLAGS, *_WITH_VALUE, "-m"])
    return _bad(f"unknown option {name}", fix)


def _bad(what: str, fix: str) -> BadInput:
    return BadInput.of(what, where="command line", fix=fix)

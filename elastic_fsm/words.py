"""The words of a command line: options, overrides, and the workers' command or a place to look at.

A verb declares what it takes, and what it does not take is refused, never passed over. The
workers' command begins at ``--``, at ``-m``, or at the first word that is neither an option nor
an override, and from there on every word belongs to it, as it is.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from elastic_fsm.problems import COMMAND_LINE, BadInput, closest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Grammar", "Words"]

_OVERRIDE = re.compile(r"(\+{1,2})?[A-Za-z_][\w.@/:-]*=|~[A-Za-z_]", re.ASCII)
# Other spellings of options, with the one by which verbs declare them and ask for them.
_SPELLINGS = {"-h": "--help", "--config": "-c", "--output": "-o", "--local-world-size": "-n"}
# Options that are short for an override, and keep their place among the others.
_SHORT_FOR = {"-n": "spec.local_world_size"}
_ONE_ONLY = {"-c": "name one file; it may name others in its list of `defaults`"}


@dataclass(slots=True)
class Words:
    """A command line, taken apart."""

    flags: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    module: bool = False
    place: Path | None = None

    def path(self, option: str) -> Path | None:
        """The file that an option names, None where it names none."""
        given = self.values.get(option, [""])[0]
        return Path(given) if given else None

    @property
    def job_file(self) -> Path | None:
        """The YAML file of ``-c``."""
        return self.path("-c")


class Grammar(NamedTuple):
    """What a verb takes, beside ``--help``.

    ``valued`` holds each option that has a value, with an example of one; brackets around it say
    that it may be left out. ``repeated`` holds those that may be given more than once. ``last`` is
    what may follow: the workers' command, or one place (a folder or a file).
    """

    flags: Sequence[str] = ()
    valued: Mapping[str, str] = MappingProxyType({})
    overrides: bool = True
    repeated: Sequence[str] = ()
    last: Literal["command", "place", ""] = ""

    def read(self, argv: Sequence[str]) -> Words:
        """Take a command line apart. Raises :class:`BadInput` for a word that has no meaning."""
        words, rest = Words(), deque(argv)
        while rest:
            word = rest.popleft()
            if word in ("--", "-m") and self.last == "command":
                _begin_command(word, rest, words)
            elif word.startswith("-") and word != "-":
                self._option(word, rest, words)
            elif self._is_override(word):
                words.overrides.append(word)
            elif self.last == "command":
                rest.appendleft(word)
                _begin_command("--", rest, words)
            elif self.last == "place" and words.place is None:
                words.place = Path(word)
            else:
                raise _bad(f"{word!r} means nothing here", self._instead(word))
        return words

    def _is_override(self, word: str) -> bool:
        """A folder may be called ``a=b``; a program of that name stands after ``--``."""
        looks = self.overrides and _OVERRIDE.match(word)
        return bool(looks) and not (self.last == "place" and Path(word).exists())

    def _option(self, word: str, rest: deque[str], words: Words) -> None:
        typed, value = _named_value(word)
        name = _SPELLINGS.get(typed, typed)
        if name in (*self.flags, "--help"):
            if value is not None:
                raise _bad(f"{typed} takes no value", f"write it as {typed}")
            words.flags.add(name)
        elif name not in self.valued:
            raise self._unknown(typed, value or (rest[0] if rest else ""))
        else:
            value = self._value(name, rest) if value is None else value
            if not value and not self._is_optional(name):
                raise _bad(f"{typed} needs a value", f"{typed} {self.valued[name]}")
            if name in _SHORT_FOR:
                words.overrides.append(f"{_SHORT_FOR[name]}={value}")
            elif name in words.values and name not in self.repeated:
                raise _bad(f"{typed} is given twice", _ONE_ONLY.get(name, "leave one out"))
            else:
                words.values.setdefault(name, []).append(value)

    def _is_optional(self, name: str) -> bool:
        return self.valued[name].startswith("[")

    def _value(self, name: str, rest: deque[str]) -> str:
        """The next word; for a value that may be left out, neither an option nor an override."""
        other = not rest or rest[0].startswith("-") or self._is_override(rest[0])
        if not rest or (self._is_optional(name) and other and not Path(rest[0]).exists()):
            return ""
        return rest.popleft()

    def _unknown(self, name: str, value: str) -> BadInput:
        from elastic_fsm.config import torchrun_hint

        ours = [*self.flags, *self.valued, "--help"]
        ours += [other for other, name in _SPELLINGS.items() if name in ours]
        ours += ["-m"] if self.last == "command" else []
        # Compared without their dashes, which would make any two options look alike.
        bare = {option.lstrip("-"): option for option in ours}
        meant = closest(name.lstrip("-"), bare)
        hint = f"did you mean {bare[meant]!r}?" if meant else f"known: {', '.join(sorted(ours))}"
        return _bad(f"unknown option {name}", torchrun_hint(name, value) or hint)

    def _instead(self, word: str) -> str:
        if "-c" in self.valued and word.endswith((".yaml", ".yml")):
            return f"a job file is named by -c {word}"
        return "name one only" if self.last == "place" else "leave it out"


def _begin_command(word: str, rest: deque[str], words: Words) -> None:
    words.module = word == "-m"
    words.command = list(rest)
    rest.clear()
    if words.module and not words.command:
        raise _bad("-m needs the name of a module", "-m pkg.train")


def _named_value(word: str) -> tuple[str, str | None]:
    """``-n4``, ``-n=4`` and ``--config=job.yaml`` as name and value; None where none is given."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], word[2:].removeprefix("=") if word[2:] else None


def _bad(what: str, fix: str) -> BadInput:
    return BadInput.of(what, where=COMMAND_LINE, fix=fix)

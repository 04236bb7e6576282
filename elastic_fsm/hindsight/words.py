"""The words of ``explain``, ``status`` and ``replay``: a folder, options, overrides."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.problems import BadInput, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Words", "read_words"]

_OVERRIDE = re.compile(r"(\+{1,2})?[A-Za-z_][\w.@/:-]*=|~[A-Za-z_]", re.ASCII)


@dataclass(slots=True)
class Words:
    """A command line, taken apart; ``values`` are those of options that have one."""

    folder: Path | None = None
    flags: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)


def read_words(
    argv: Sequence[str],
    *,
    flags: Iterable[str] = (),
    with_value: Iterable[str] = (),
    overrides: bool = False,
) -> Words:
    """Take a command line apart; raises :class:`BadInput` for a word that has no meaning."""
    words = Words()
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in flags:
            words.flags.add(word)
        elif name in with_value:
            words.values[name] = value if equals else next(rest, "")
            if not words.values[name]:
                raise _bad(f"{name} needs a value", f"{name} FILE")
        elif overrides and _OVERRIDE.match(word) and not Path(word).exists():
            words.overrides.append(word)
        elif word.startswith("-") or words.folder is not None:
            raise _bad(f"cannot use {word!r}", _known(word, [*flags, *with_value]))
        else:
            words.folder = Path(word)
    return words


def _known(word: str, options: list[str]) -> str:
    return did_you_mean(word, options) if word.startswith("-") else "name one folder only"


def _bad(what: str, fix: str) -> BadInput:
    return BadInput.of(what, where="command line", fix=fix)

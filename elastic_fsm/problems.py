"""One finding about the user's input, and the error that carries all of them.

Nothing here knows where a problem was found: the command line, Hydra and the machine's
checks all speak of their findings in this one form, so that a user sees one kind of answer.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["BadInput", "Problem", "closest", "did_you_mean"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: where it is, what is wrong, and the likely fix.

    ``path`` is the dotted path in the composed configuration (``machine.states.HEALTHY``) or
    empty; ``where`` is ``file:line``, ``command line`` or empty while nobody has looked it up.
    """

    what: str
    path: str = ""
    fix: str = ""
    where: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.path) if part)
        text = f"{place}: {self.what}" if place else self.what
        return f"{text}\n    {self.fix}" if self.fix else text


class BadInput(Exception):
    """The user's input cannot be run; ``problems`` holds every finding, never only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    @classmethod
    def of(cls, what: str, *, path: str = "", fix: str = "", where: str = "") -> BadInput:
        """The common case of a single finding."""
        return cls([Problem(what, path=path, fix=fix, where=where)])


def closest(word: str, known: Iterable[str]) -> str | None:
    """What a ``word`` that may be misspelt probably means; None when nothing is near."""
    names = sorted(set(known))
    close = [word] if word in names else difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt ``word``, else the list of what is known; never empty-handed."""
    names = sorted(set(known))
    if meant := closest(word, names):
        return f"did you mean {meant!r}?"
    return f"known: {', '.join(names)}" if names else ""

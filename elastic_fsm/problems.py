"""One finding about the user's input, and the error that carries all of them.

Nothing here knows where a problem was found: the command line, Hydra and the machine's
checks all speak of their findings in this one form, so that a user sees one kind of answer.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "COMMAND_LINE",
    "BadInput",
    "Problem",
    "closest",
    "cut",
    "did_you_mean",
    "error_text",
    "listed",
    "shortened",
]

COMMAND_LINE = "command line"
"""The place of what was typed there; see :attr:`Problem.where`."""


class Problem(NamedTuple):
    """One finding: where it is, what is wrong, and the likely fix.

    ``path`` is the dotted path in the composed configuration (``machine.states.HEALTHY``) or
    empty; ``where`` is ``file:line``, ``command line`` or empty while nobody has looked it up.
    """

    what: str
    path: str = ""
    fix: str = ""
    where: str = ""

    @classmethod
    def told(cls, text: str, *, path: str = "", where: str = "") -> Problem:
        """Of what a ``ValueError`` tells: what is wrong and, after a semicolon, the likely fix."""
        what, _, fix = text.partition("; ")
        return cls(what, path=path, fix=fix, where=where)

    def __str__(self) -> str:
        place = ": ".join(shortened(part) for part in (self.where, self.path) if part)
        what = shortened(self.what)
        text = f"{place}: {what}" if place else what
        return f"{text}\n    {self.fix}" if self.fix else text  # whole: it may be there to be typed


class BadInput(Exception):
    """The user's input cannot be run; ``problems`` holds every finding, never only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        assert not isinstance(problems, Problem), "a tuple too: say BadInput([problem])"
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__("\n".join(self.texts()))

    def texts(self) -> list[str]:
        """The first findings, each as text, and how many there are beside them."""
        more = len(self.problems) - _MOST_TOLD
        first = [str(problem) for problem in self.problems[:_MOST_TOLD]]
        return [*first, f"and {more} more"] if more > 0 else first

    @classmethod
    def of(cls, what: str, *, path: str = "", fix: str = "", where: str = "") -> BadInput:
        """The common case of a single finding."""
        return cls([Problem(what, path=path, fix=fix, where=where)])


_MOST_TOLD = 20
"""Findings: more would be of the same kind, or follow from the first ones."""
_MOST_SHOWN = 500
"""Characters of each part of a finding: all of them fit on a screen."""
_MOST_NAMES = 40


def shortened(text: str) -> str:
    """For whole texts: a key or a path of thousands of characters is known by its beginning and
    its end. See :func:`cut` for a value within a sentence, and :func:`listed` for many names."""
    half = _MOST_SHOWN // 2
    return text if len(text) <= _MOST_SHOWN else f"{text[:half]}…{text[-half:]}"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80
_REPR.fillvalue = "…"


def error_text(error: BaseException) -> str:
    """``LookupError: lost``; an exception may even fail to say what it is."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return f"{name} (its text cannot be shown)"


def cut(value: object) -> str:
    """For a value of the user's in a sentence: its ``repr``, and of a large one only the outside,
    80 characters. See :func:`shortened` for whole texts."""
    return _REPR.repr(value)


def listed(names: Sequence[str]) -> str:
    """``a, b``; of a long list the beginning, and how many there are beside it."""
    more = len(names) - _MOST_NAMES
    text = ", ".join(names[:_MOST_NAMES])
    return f"{text} and {more} more" if more > 0 else text


_LONGEST = 100
"""Characters of a word that are compared; names are shorter."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """What a ``word`` that may be misspelt probably means; None when nothing is near."""
    names = sorted(set(known))
    if word in names:
        return word
    import difflib  # only a mistake needs it: a start that makes none is quicker

    close = difflib.get_close_matches(word[:_LONGEST], names, n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt ``word``, else the list of what is known; never empty-handed."""
    names = sorted(set(known))
    if meant := closest(word, names):
        return f"did you mean {meant!r}?"
    return f"known: {listed(names)}" if names else ""

"""A scenario's settings among the words of a command line: which win, and who is to blame."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.problems import Problem
    from elastic_fsm.scenario.script import Script

__all__ = ["blaming", "key_of", "with_settings_of"]

_LINE = "command line"


def key_of(word: str) -> str:
    """The key that an override speaks of."""
    return re.sub(r"^[+~]*", "", word).partition("=")[0]


def with_settings_of(script: Script, overrides: Sequence[str], machine: str = "") -> list[str]:
    """The scenario's words, then the user's: of two words with one key the later wins."""
    chosen = [f"machine={machine}"] if machine else []
    user = [word for word in overrides if not (machine and key_of(word) == "machine")]
    own = [f"machine={script.machines[0]}"] if script.machines else []
    return [*own, *script.overrides, *chosen, *user]


@contextmanager
def blaming(script: Script, overrides: Sequence[str] = ()) -> Iterator[None]:
    """What is wrong with a setting of the scenario is told with its line.

    The composition takes all words for those of a command line. ``overrides`` are the user's.
    """
    try:
        yield
    except BadInput as error:
        typed = {key_of(word) for word in overrides}
        raise BadInput(_placed(problem, script, typed) for problem in error.problems) from error


def _placed(problem: Problem, script: Script, typed: set[str]) -> Problem:
    place, _, word = problem.where.partition(": ")
    if place != _LINE:
        return problem
    path = f"{key_of(word) if word in script.overrides else problem.path}."
    keys = [key for key in script.places if path.startswith(f"{key}.") and key not in typed]
    return problem._replace(where=script.places[max(keys, key=len)]) if keys else problem

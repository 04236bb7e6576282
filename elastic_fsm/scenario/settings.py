"""A scenario's settings among the words of a command line: which win, and who is to blame."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from elastic_fsm.problems import COMMAND_LINE, BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from elastic_fsm.problems import Problem
    from elastic_fsm.scenario.script import Script

__all__ = ["blaming", "key_of", "run_of", "with_settings_of"]

_Run = TypeVar("_Run")


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
    What is wrong with the lines by themselves is told, too.
    """
    try:
        yield
    except BadInput as error:
        typed = {key_of(word) for word in overrides}
        placed = [_placed(problem, script, typed) for problem in error.problems]
        raise script.refusal([*script.problems, *placed]) from error


def _placed(problem: Problem, script: Script, typed: set[str]) -> Problem:
    place, _, word = problem.where.partition(": ")
    if place != COMMAND_LINE:
        return problem
    path = f"{key_of(word) if word in script.overrides else problem.path}."
    keys = [key for key in script.places if path.startswith(f"{key}.") and key not in typed]
    return problem._replace(where=script.places[max(keys, key=len)]) if keys else problem


def run_of(
    script: Script,
    prepare: Callable[[Script], _Run],
    wrong_lines: Callable[[Script, _Run], Iterable[Problem]],
) -> _Run:
    """The run that ``prepare`` makes of a scenario's settings.

    Raises :class:`BadInput` with all that is wrong with those and, as far as that can be known,
    with the lines that ``wrong_lines`` holds against the run.
    """
    try:
        run = prepare(script)
    except BadInput as error:
        hidden = _hidden_by(error, script, lambda rest: wrong_lines(rest, prepare(rest)))
        raise script.refusal([*error.problems, *hidden]) from error
    script.check(wrong_lines(script, run))
    return run


def _hidden_by(
    error: BadInput, script: Script, find: Callable[[Script], Iterable[Problem]]
) -> Iterator[Problem]:
    """What ``find`` tells of the scenario without the settings that are to blame for an error."""
    rest = _without(script, {problem.where for problem in error.problems})
    if rest.places == script.places:
        return
    try:
        yield from find(rest)
    except BadInput as more:
        # Of a machine that is not the one which was meant, everything may seem to be wrong.
        if not any(key.startswith("machine") for key in rest.doubtful):
            yield from more.problems
            yield from _hidden_by(more, rest, find)


def _without(script: Script, blamed: Collection[str]) -> Script:
    """The scenario without its settings at these places."""
    wrong = {key for key, where in script.places.items() if where in blamed}
    return replace(
        script,
        machines=() if "machine" in wrong else script.machines,
        overrides=[word for word in script.overrides if key_of(word) not in wrong],
        places={key: where for key, where in script.places.items() if key not in wrong},
        problems=[],
        doubtful=script.doubtful | wrong,
    )

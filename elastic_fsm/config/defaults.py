"""Puts the defaults list of a user's file into the form that Hydra needs.

A user writes what they mean, ``- machine: fail_fast``. Hydra wants to hear that ``run`` comes
first, that the choice *overrides* the one made there, that overrides stand last, and where the
file's own keys come in.
"""

from __future__ import annotations

from typing import Any

from elastic_fsm.config.hints import GROUPS
from elastic_fsm.problems import BadInput, Problem, cut

__all__ = ["plain_defaults"]

# Names for what every job starts from; naming it is harmless.
_OURS = {"run", "elastic_fsm/run", "/elastic_fsm/run"}


def plain_defaults(given: Any, name: str, *, primary: bool) -> list[Any]:
    """Hydra's defaults list for a file that wrote ``given``; ``primary``: it is the job file."""
    if not isinstance(given, list | None):
        fix = "write it as a list:  defaults: [{machine: fail_fast}]"
        raise BadInput.of("defaults is not a list", path="defaults", where=name, fix=fix)
    others: list[Any] = []
    choices: list[Any] = []
    problems: list[Problem] = []
    for item in given or []:
        if isinstance(item, str):
            others += [] if item in _OURS else [item]
        elif isinstance(item, dict) and len(item) == 1 and str(next(iter(item))).strip():
            ((key, value),) = item.items()
            _sort_in(str(key), value, others, choices)
        else:
            fix = "an entry is a name, or one choice such as  machine: fail_fast"
            what = f"cannot use {cut(item)}"
            problems.append(Problem(what, path="defaults", where=name, fix=fix))
    if problems:
        raise BadInput(problems)
    own = [] if "_self_" in others else ["_self_"]
    return [*(["run"] if primary else []), *others, *own, *choices]


def _sort_in(key: str, value: Any, others: list[Any], choices: list[Any]) -> None:
    group = key.split()[-1].removeprefix("/").removeprefix("elastic_fsm/")
    if group in GROUPS:
        choices.append({f"override {group}": value})
    elif key not in _OURS:
        others.append({key: value})

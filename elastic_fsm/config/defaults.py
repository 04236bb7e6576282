"""Puts the defaults list of a user's file into the form that Hydra needs.

A user writes what they mean, ``- machine: fail_fast``. Hydra wants to hear that ``run`` comes
first, that the choice *overrides* the one made there, that overrides stand last, and where the
file's own keys come in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.config.hints import GROUPS
from elastic_fsm.problems import BadInput, Problem, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["AS_A_LIST", "plain_defaults"]

AS_A_LIST = "write a list of names and choices:  defaults: [common, {machine: fail_fast}]"
# Names for what every job starts from; naming it is harmless.
_OURS = {"run", "elastic_fsm/run", "/elastic_fsm/run"}


def plain_defaults(given: Any, name: str, *, primary: bool) -> list[Any]:
    """Hydra's defaults list for a file that wrote ``given``; ``primary``: it is the job file."""
    if not isinstance(given, list | None):
        raise BadInput.of("defaults is not a list", path="defaults", where=name, fix=AS_A_LIST)
    others: list[Any] = []
    choices: list[tuple[str, Any]] = []
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
    if problems := [*problems, *_chosen_twice(choices, name)]:
        raise BadInput(problems)
    own = [] if "_self_" in others else ["_self_"]
    overrides = [{f"override {group}": value} for group, value in choices]
    return [*(["run"] if primary else []), *others, *own, *overrides]


def _sort_in(key: str, value: Any, others: list[Any], choices: list[tuple[str, Any]]) -> None:
    group = key.split()[-1].removeprefix("/").removeprefix("elastic_fsm/")
    if group in GROUPS:
        choices.append((group, value))
    elif key not in _OURS:
        others.append({key: value})


def _chosen_twice(choices: list[tuple[str, Any]], name: str) -> Iterator[Problem]:
    """Of two choices in one list Hydra takes the first and passes over the other."""
    groups = [group for group, _ in choices]
    for group in dict.fromkeys(groups):
        if groups.count(group) > 1:
            given = " and ".join(cut(value) for chosen, value in choices if chosen == group)
            what = f"{group} is chosen more than once: {given}"
            yield Problem(what, path="defaults", where=name, fix="keep one of them")

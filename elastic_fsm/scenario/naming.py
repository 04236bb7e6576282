"""What a scenario's lines name, held against the run: workers, events, and what events carry.

An event that nobody knows, or one without what its readers need, would be a mistake of the
scenario's that shows as one of the agent's; against a real run it would end that.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from elastic_fsm.checks import known_events
from elastic_fsm.problems import BadInput, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elastic_fsm.machine import Machine
    from elastic_fsm.scenario.script import Happening, Script

__all__ = ["check_names", "data_of", "wrong_names"]

_NEEDED = object()

# What the readers of an event find in it, and what is put there when a scenario does not say.
_DATA: Mapping[str, Mapping[str, Any]] = {
    "worker_exited": {
        "local_rank": _NEEDED,
        "exit_code": _NEEDED,
        "pid": None,
        "stopped_by_agent": False,
        "reason": "",
    },
    "timer_expired": {
        "local_rank": _NEEDED,
        "pid": None,
        "scope": "somewhere",
        "after": 0,
        "signal": "SIGKILL",
    },
    "signal_received": {"signal": _NEEDED},
    "membership_changed": {"reason": "as the scenario says"},
    "rendezvous_failed": {"reason": "as the scenario says"},
    "command_finished": {"name": "somebody", "exit_code": 0, "reason": "", "last_line": ""},
    "command_failed": {"name": "somebody", "exit_code": 1, "reason": "", "last_line": ""},
    "action_failed": {"name": "somebody", "error": "as the scenario says"},
}
_NUMBERS = ("local_rank", "exit_code", "pid", "after")

# Events whose data no line can hold, and the lines that make them.
_ELSEWHERE = {
    "rendezvous_completed": "write `at 40s rendezvous completes`",
    "workers_started": "it is the answer to a start: write `start takes 3s`",
    "workers_stuck": "it is the answer to a stop: write `worker 0 survives everything`",
}


def data_of(line: Happening) -> dict[str, Any]:
    """The data of an event's line, with what it leaves unsaid."""
    return {**_DATA.get(line.values["NAME"], {}), **line.values.get("DATA", {})}


def check_names(script: Script, machine: Machine, workers: int) -> None:
    """Raises :class:`BadInput` with every line that names what there is not."""
    problems = list(wrong_names(script, machine, workers))
    if problems:
        raise BadInput(problems)


def wrong_names(script: Script, machine: Machine, workers: int) -> Iterator[Problem]:
    """Every line that names what there is not."""
    events = _events(machine)
    for line in script.happenings:
        found = (*_wrong_rank(line.rank, workers), *_wrong_event(line, events, workers))
        yield from (problem._replace(where=line.where) for problem in found)


def _events(machine: Machine) -> set[str]:
    """The agent's own, and whatever the machine waits for or asks for."""
    answers = {event for use in machine.rules.actions.values() for event in use.answers + use.tells}
    triggers = {transition.trigger for transition in machine.spec.transitions.values()}
    return known_events(machine.spec, answers | triggers)


def _wrong_rank(rank: Any, workers: int) -> Iterator[Problem]:
    if isinstance(rank, int) and rank not in range(workers):
        yield Problem(f"there is no worker {rank}: they are 0 to {workers - 1}")


def _wrong_event(line: Happening, events: set[str], workers: int) -> Iterator[Problem]:
    if line.kind != "event":
        return
    name = line.values["NAME"]
    if name not in events:
        yield Problem(f"unknown event {name!r}", fix=did_you_mean(name, events))
    elif name in _ELSEWHERE:
        yield Problem(f"{name} cannot be written as an event", fix=_ELSEWHERE[name])
    elif name in _DATA:
        yield from _wrong_data(name, data_of(line), workers)


def _wrong_data(name: str, data: Mapping[str, Any], workers: int) -> Iterator[Problem]:
    for key, value in data.items():
        if key not in _DATA[name]:
            yield Problem(f"{name} has no {key!r}", fix=did_you_mean(key, _DATA[name]))
        elif value is _NEEDED:
            yield Problem(f"{name} needs {key}", fix=f"write `at 40s event {name} {key}=…`")
        elif key in _NUMBERS and not isinstance(value, int | None):
            yield Problem(f"{key} of {name} is a number, not {value!r}")
        elif key == "signal" and (value or name != "timer_expired"):
            yield from _wrong_signal(str(value))
    yield from _wrong_rank(data.get("local_rank"), workers)


def _wrong_signal(name: str) -> Iterator[Problem]:
    known = [each.name for each in signal.Signals]
    if name not in known:
        yield Problem(f"unknown signal {name!r}", fix=did_you_mean(name, known))

"""What a scenario's lines name, held against the run: workers, events and their data, signals.

An event that nobody knows, or one without what its readers need, would be a mistake of the
scenario's that shows as one of the agent's; against a real run it would end that. A signal that the
agent does not hear would not be an event at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.checks import known_events
from elastic_fsm.config.signals import NOT_HEARD
from elastic_fsm.journal_shape import fault_of_datum
from elastic_fsm.problems import Problem, closest, cut, did_you_mean, listed
from elastic_fsm.signal_names import check_signal_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from elastic_fsm.machine import Machine
    from elastic_fsm.scenario.script import Happening, Script

__all__ = ["data_of", "wrong_names"]

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

# Events whose data no line can hold, and the lines that make them.
_ELSEWHERE = {
    "rendezvous_completed": "write `at 40s rendezvous completes`",
    "workers_started": "it is the answer to a start: write `start takes 3s`",
    "workers_stuck": "it is the answer to a stop: write `worker 0 survives everything`",
}

# What becomes of an agent that is sent a signal to which it does not listen.
_MOSTLY = "a real one would end the agent"
_REAL = dict.fromkeys(
    ("SIGPIPE", "SIGURG", "SIGWINCH", "SIGXFSZ"), "a real one would come to nothing"
)


def data_of(line: Happening) -> dict[str, Any]:
    """The data of an event's line, with what it leaves unsaid."""
    return {**_DATA.get(line.values["NAME"], {}), **line.values.get("DATA", {})}


class _Run(NamedTuple):
    """What there is to be named; None where nobody can know it. The agent hears ``signals``."""

    events: Collection[str] | None
    ranks: range | None
    signals: Collection[str] | None


def wrong_names(
    script: Script, machine: Machine, workers: int, stop_signals: Iterable[str]
) -> Iterator[Problem]:
    """Every line that names what there is not, as far as it can be known: not where it is wrong
    itself what a setting says of that."""
    run = _run(script.doubtful, machine, workers, stop_signals)
    for line in script.happenings:
        for problem in _wrong_names(line, run):
            yield problem._replace(where=line.where)


def _run(
    doubtful: Iterable[str], machine: Machine, workers: int, stop_signals: Iterable[str]
) -> _Run:
    rules = _is_said_by(doubtful, "machine", "plugins")
    signals = rules or _is_said_by(doubtful, "stop.signals")
    return _Run(
        events=None if rules else _events(machine),
        ranks=None if _is_said_by(doubtful, "spec.local_world_size") else range(workers),
        signals=None if signals else machine.rules.heard(stop_signals),
    )


def _is_said_by(keys: Iterable[str], *names: str) -> bool:
    """Whether one of the keys, which may be misspelt, is one of these names, around it or in it."""
    return any(_is_meant(key.split("."), name.split(".")) for key in keys for name in names)


def _is_meant(key: Sequence[str], name: Sequence[str]) -> bool:
    return all(closest(part, [meant]) for part, meant in zip(key, name, strict=False))


def _events(machine: Machine) -> set[str]:
    """The agent's own, and whatever the machine waits for or asks for."""
    answers = {event for use in machine.rules.actions.values() for event in use.answers + use.tells}
    triggers = {transition.trigger for transition in machine.spec.transitions.values()}
    return known_events(machine.spec, answers | triggers)


def _wrong_names(line: Happening, run: _Run) -> Iterator[Problem]:
    yield from _wrong_rank(line.rank, run)
    if line.kind == "signal":
        yield from _not_heard(line.values["SIGNAL"], run)
    elif line.kind == "event":
        yield from _wrong_event(line, run)


def _wrong_rank(rank: Any, run: _Run) -> Iterator[Problem]:
    if isinstance(rank, int) and run.ranks is not None and rank not in run.ranks:
        yield Problem(f"there is no worker {rank}: they are 0 to {len(run.ranks) - 1}")


def _not_heard(name: str, run: _Run) -> Iterator[Problem]:
    if run.signals is not None and name not in run.signals:
        real = f"{name} {NOT_HEARD[name]}" if name in NOT_HEARD else _REAL.get(name, _MOSTLY)
        fix = f"it listens to {listed(sorted(run.signals))}" if run.signals else ""
        yield Problem(f"the run does not listen to {name}: {real}", fix=fix)


def _wrong_event(line: Happening, run: _Run) -> Iterator[Problem]:
    name = line.values["NAME"]
    if name in _ELSEWHERE:
        yield Problem(f"{name} cannot be written as an event", fix=_ELSEWHERE[name])
    elif run.events is not None and name not in run.events:
        yield Problem(f"unknown event {name!r}", fix=did_you_mean(name, run.events))
    elif name in _DATA:
        yield from _wrong_data(name, data_of(line), run)


def _wrong_data(name: str, data: Mapping[str, Any], run: _Run) -> Iterator[Problem]:
    for key, value in data.items():
        if key not in _DATA[name]:
            yield Problem(f"{name} has no {key!r}", fix=did_you_mean(key, _DATA[name]))
        elif value is _NEEDED:
            yield Problem(f"{name} needs {key}", fix=f"write `at 40s event {name} {key}=…`")
        elif fault := fault_of_datum(name, key, value):
            yield Problem(f"{key} of {name} {fault}: {cut(value)}")
        elif key == "signal" and (value or name != "timer_expired"):
            yield from _wrong_signal(name, str(value), run)
    yield from _wrong_rank(data.get("local_rank"), run)


def _wrong_signal(event: str, name: str, run: _Run) -> Iterator[Problem]:
    try:
        check_signal_name(name)
    except ValueError as error:
        yield Problem.told(str(error))
        return
    if event == "signal_received":
        yield from _not_heard(name, run)

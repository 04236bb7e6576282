"""What came of a scenario, as text: the way the machine took, the times, the end.

The text holds nothing that changes from run to run, so that a scenario file can keep it and a
change of behaviour shows as a difference.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.failures import describe_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.scenario.playing import Played
    from elastic_fsm.scenario.script import Script

__all__ = ["compare", "tell", "with_outcome"]

# Longer ways are cut in the middle on a terminal; files keep all of it.
_HEAD = _TAIL = 12


def tell(played: Played, *, whole: bool = True) -> str:
    """The path, a line for each step; the restarts; the time in each state; the outcome."""
    path = _path(played)
    if not whole and len(path) > _HEAD + _TAIL + 1:
        left = len(path) - _HEAD - _TAIL
        path[_HEAD:-_TAIL] = [f"            ... {left} more steps; --whole shows them"]
    return "\n".join([*path, "", *_summary(played)]) + "\n"


def with_outcome(script: Script, told: str) -> str:
    """The text of a scenario file with what came of it below its line of dashes."""
    return f"{script.story.rstrip()}\n----\n{told}"


def _path(played: Played) -> list[str]:
    """A line for each step; those of a kind at one moment, that lead nowhere, are one line."""
    lines: list[str] = []
    for kind, group in itertools.groupby(played.steps, _kind):
        steps = [_step(step) for step in group]
        lines += [f"{steps[0]}, and {len(steps) - 1} more"] if kind and steps[1:] else steps
    return lines


def _kind(record: Mapping[str, Any]) -> tuple[str, float] | None:
    """What internal steps have in common."""
    return None if record["entered"] else (record["transition"], record["facts"]["now"])


def _step(record: Mapping[str, Any]) -> str:
    when = say_duration(record["facts"]["now"])
    return f"{when:>10}  {record['transition']:<15} {record['dest']:<11} {_why(record)}".rstrip()


def _why(record: Mapping[str, Any]) -> str:
    """What a reader could not tell from the name of the transition."""
    data = record["event"]["data"]
    match record["event"]["name"]:
        case "worker_exited":
            stopped = ", stopped by the agent" if data.get("stopped_by_agent") else ""
            return f"worker {data['local_rank']} {_end(data)}{stopped}"
        case "timer_expired":
            return f"worker {data['local_rank']}: {data['scope']}"
        case "signal_received":
            return str(data["signal"])
        case "membership_changed":
            return str(data.get("reason", ""))
        case "action_failed":
            return f"{data.get('name', '')}: {data.get('error', '')}"
    return ""


def _end(data: Mapping[str, Any]) -> str:
    """How a worker ended; one that has no pid has never begun."""
    how, reason = describe_exit(data["exit_code"]), data.get("reason")
    if not reason:
        return how
    return f"{how}: {reason}" if data.get("pid") else str(reason)


def _summary(played: Played) -> Iterator[str]:
    yield f"restarts used: {_restarts(played)}"
    times = {state: time for state, time in played.time_in_states().items() if time > 0}
    if times:
        yield "time in each state:"
    for state, time in times.items():
        yield f"{say_duration(time):>10}  {100 * time / played.duration:5.1f} %  {state}"
    yield f"outcome: {_outcome(played)}"
    if played.run.agent.error:
        yield f"the agent's own error: {played.run.agent.error}"


def _restarts(played: Played) -> str:
    agent = played.run.agent
    used = f"{agent.restarts_used} of {agent.group.spec.max_restarts}"
    free = agent.membership_restarts
    return f"{used}, and {free} when nodes changed" if free else used


def _outcome(played: Played) -> str:
    state = played.run.agent.machine.state.name
    if played.result is None:
        return f"{state} {played.ending}"
    return f"{state}, exit code {played.result.exit_code}"


def compare(runs: Mapping[str, Played]) -> str:
    """Several machines side by side, a column for each, and where their ways part."""
    states = dict.fromkeys(s for played in runs.values() for s in played.time_in_states())
    rows = [
        ("", list(runs)),
        ("outcome", [_outcome(played) for played in runs.values()]),
        ("after", [say_duration(played.duration) for played in runs.values()]),
        ("restarts used", [_restarts(played) for played in runs.values()]),
        ("steps", [str(len(played.steps)) for played in runs.values()]),
    ]
    for state in states:
        times = [played.time_in_states().get(state, 0.0) for played in runs.values()]
        if any(times):
            rows.append((f"time in {state}", [say_duration(time) for time in times]))
    return "\n".join([*_table(rows), "", *_parting(runs)]) + "\n"


def _table(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    first = max(len(name) for name, _ in rows)
    columns = zip(*(cells for _, cells in rows), strict=True)
    widths = [max(map(len, column)) for column in columns]
    for name, cells in rows:
        padded = "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{name:<{first}}   {padded}".rstrip()


def _parting(runs: Mapping[str, Played]) -> Iterator[str]:
    """The first step that is not the same for all."""
    ways = [[_step(step) for step in played.steps] for played in runs.values()]
    common = 0
    while all(len(way) > common for way in ways) and len({way[common] for way in ways}) == 1:
        common += 1
    if all(len(way) == common for way in ways):
        yield f"all take the same {common} steps"
        return
    yield f"the same for {common} steps, then:"
    for name, way in zip(runs, ways, strict=True):
        step = " ".join(way[common].split()) if len(way) > common else "nothing"
        yield f"  {name}: {step}"

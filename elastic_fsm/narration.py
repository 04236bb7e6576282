"""What happened, in words: one line for each change of state, made from its journal record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import describe_exit
from elastic_fsm.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["because", "counted", "ranges", "state_change"]


_TOLD_ANYWAY = ("command_failed", "timer_expired")
"""Events that are told of whatever came of them."""


def state_change(record: Mapping[str, Any]) -> str | None:
    """``HEALTHY -> UNHEALTHY [worker_lost] rank 3 …``; None for a record without a change,
    unless it tells of a command that failed or a worker that overran."""
    if "note" in record:
        return printable(str(record["note"]))
    if record["outcome"] != "step" or not record["entered"]:
        told = record["event"]["name"] in _TOLD_ANYWAY
        return printable(because(record)) if told else None
    arrow = f"{record['source']} -> {record['dest']} [{record['transition']}]"
    return printable(f"{arrow} {because(record)}")


def ranges(ranks: Sequence[int]) -> str:
    """Sorted ranks in short: ``0-3, 7``."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)


def because(record: Mapping[str, Any]) -> str:
    """The event of a record, as a clause."""
    event = record["event"]
    words = _WORDS.get(event["name"])
    if words is not None:
        return words(event["data"], record["facts"])
    after = event["data"].get("after")
    timed = isinstance(after, int | float) and after > 0  # a rule may give it to its own events
    return f"{event['name']} after {after:g} s" if timed else str(event["name"])


def counted(number: int, noun: str) -> str:
    """``1 worker`` or ``2 workers``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _exited(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    pid = f" (pid {data['pid']})" if data["pid"] else ""
    reason = f": {data['reason']}" if data["reason"] else ""
    return f"local rank {data['local_rank']}{pid} {describe_exit(data['exit_code'])}{reason}"


def _expired(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    pid = f" (pid {data['pid']})" if data["pid"] else ""
    expired = f"the timer {data['scope']!r} expired after {data['after']:g} s"
    return f"local rank {data['local_rank']}{pid}: {expired}"


def _completed(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    world = data["world"]
    nodes = counted(len(world["nodes"]), "node")
    meeting = f"{world['master_addr']}:{world['master_port']}"
    return f"round {world['round']}: {nodes}, workers meet at {meeting}"


def _failed(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    failures = data["failures"].items()
    exits = [f"rank {rank} {describe_exit(code)}" for rank, code in failures]
    return "; ".join(exits) or f"the workers are {data['state']}"


def _stopped(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    is_unknown = data.get("caught", ()) is None
    doubt = "; whether one caught a signal cannot be told" if is_unknown else ""
    return f"all workers are down{doubt}; restarts left: {facts['restarts_left']}"


def _command_failed(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    said = f": {data['last_line']}" if data.get("last_line") else ""
    return f"the command {data['name']} {data['reason'] or describe_exit(data['exit_code'])}{said}"


_WORDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]] = {
    "run_requested": lambda data, facts: "the run begins",
    "rendezvous_completed": _completed,
    "rendezvous_failed": lambda data, facts: f"no rendezvous: {data['reason']}",
    "spare_assigned": lambda data, facts: "there are enough nodes without this one",
    "run_finished": lambda data, facts: "the other nodes finished the run",
    "membership_changed": lambda data, facts: f"nodes changed: {data.get('reason', '')}",
    "workers_started": lambda data, facts: f"{counted(len(data['pids']), 'worker')} started",
    "worker_exited": _exited,
    "timer_expired": _expired,
    "workers_initialized": lambda data, facts: f"{counted(len(data['ranks']), 'worker')} started",
    "workers_succeeded": lambda data, facts: "all workers are done",
    "workers_failed": _failed,
    "workers_stopped": _stopped,
    "workers_stuck": lambda data, facts: f"SIGKILL did not end {data['pids']}",
    "barrier_passed": lambda data, facts: "all nodes are done",
    "signal_received": lambda data, facts: f"{data['signal']} was received",
    "command_finished": lambda data, facts: f"the command {data['name']} finished",
    "command_failed": _command_failed,
    "action_failed": lambda data, facts: f"the agent's {data['name']} failed: {data['error']}",
}

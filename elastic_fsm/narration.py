"""What happened, in words: one line for each change of state, made from its journal record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["because", "ranges", "state_change"]


def state_change(record: Mapping[str, Any]) -> str | None:
    """``HEALTHY -> UNHEALTHY [worker_lost] rank 3 …``; None for a record without a change."""
    if "note" in record:
        return str(record["note"])
    if record["outcome"] != "step" or not record["entered"]:
        return None
    arrow = f"{record['source']} -> {record['dest']} [{record['transition']}]"
    return f"{arrow} {because(record)}"


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
    return f"{event['name']} after {after:g} s" if after else event["name"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _exited(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    who = f"local rank {data['local_rank']}"
    reason = f": {data['reason']}" if data["reason"] else ""
    return f"{who} (pid {data['pid']}) {describe_exit(data['exit_code'])}{reason}"


def _completed(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    world = data["world"]
    nodes = _count(len(world["nodes"]), "node")
    meeting = f"{world['master_addr']}:{world['master_port']}"
    return f"round {world['round']}: {nodes}, workers meet at {meeting}"


def _stopped(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    return f"all workers are down; restarts left: {facts['restarts_left']}"


def _command_failed(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    return f"the command {data['name']} {data['reason'] or describe_exit(data['exit_code'])}"


_WORDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]] = {
    "run_requested": lambda data, facts: "the run begins",
    "rendezvous_completed": _completed,
    "rendezvous_failed": lambda data, facts: f"no rendezvous: {data['reason']}",
    "spare_assigned": lambda data, facts: "there are enough nodes without this one",
    "run_finished": lambda data, facts: "the other nodes finished the run",
    "membership_changed": lambda data, facts: f"nodes changed: {data.get('reason', '')}",
    "workers_started": lambda data, facts: f"{_count(len(data['pids']), 'worker')} started",
    "worker_exited": _exited,
    "workers_stopped": _stopped,
    "workers_stuck": lambda data, facts: f"SIGKILL did not end {data['pids']}",
    "barrier_passed": lambda data, facts: "all nodes are done",
    "signal_received": lambda data, facts: f"{data['signal']} was received",
    "command_finished": lambda data, facts: f"the command {data['name']} finished",
    "command_failed": _command_failed,
    "action_failed": lambda data, facts: f"the agent's {data['name']} failed: {data['error']}",
}

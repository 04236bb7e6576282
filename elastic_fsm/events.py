"""What can happen: events, and the catalogue of those that the agent itself knows.

An event says that something *happened*: its name is in the past tense and is, letter for
letter, the trigger of the transitions that react to it. It carries plain values (what JSON can
hold), never live objects, so that a journal can be read back and fed to a machine again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CATALOGUE", "Event", "EventType"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; whoever gets it cannot give its ``data`` other values.

    ``attempt`` marks an answer to something asked in that attempt; ``visit`` marks a timer that
    was armed on that entry of a state. The agent drops an event whose mark is not current.
    """

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    attempt: int | None = None
    visit: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", MappingProxyType(self.data))

    def __reduce__(self) -> tuple[type[Event], tuple[Any, ...]]:
        """A read-only mapping cannot be pickled, nor copied."""
        return Event, (self.name, dict(self.data), self.attempt, self.visit)


class EventType(NamedTuple):
    """A kind of event. A *notice* comes unasked, so that every state must say what it does."""

    name: str
    doc: str
    notice: bool = False


CATALOGUE: Mapping[str, EventType] = {
    kind.name: kind
    for kind in (
        EventType("run_requested", "The agent was asked to run."),
        EventType("rendezvous_completed", "The nodes agreed on ranks: world."),
        EventType("rendezvous_failed", "The nodes could not agree: reason."),
        EventType("spare_assigned", "There are enough nodes without this one: it is a spare."),
        EventType("run_finished", "The other nodes finished the run without this one."),
        EventType("membership_changed", "Nodes came or went: reason.", notice=True),
        EventType("workers_started", "All workers of this node run: pids by local rank."),
        EventType(
            "worker_exited",
            "A worker ended: local_rank, pid, exit_code (-n: signal n), stopped_by_agent, reason.",
            notice=True,
        ),
        EventType(
            "timer_expired",
            "A worker did not come back within the time that it, or its agent, had set: "
            "local_rank, pid, scope, after (seconds), signal (name, empty: it is not ended).",
        ),
        EventType(
            "workers_stopped",
            "The answer to a stop: no worker of this node is left: caught (names of the signals "
            "that workers had handlers for which failed by themselves; null: unknown).",
        ),
        EventType("workers_stuck", "Even SIGKILL did not end these: pids."),
        EventType("barrier_passed", "All nodes are done."),
        EventType("signal_received", "The agent was sent a signal: signal (name).", notice=True),
        EventType("command_finished", "A command ended with 0: name, exit_code, last_line."),
        EventType("command_failed", "A command failed: name, exit_code, reason, last_line."),
        EventType("action_failed", "An action or a condition raised: name, error.", notice=True),
    )
}

"""What a journal adds up to: counts, seconds in each state, and where the machine was last.

The journal keeps one while it is written and hands it on, in the head of each new file, so that
nothing is lost from the sums when old files are dropped. A reader builds the same from the lines.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMAT", "Restarts", "Tally"]

FORMAT = 1
"""Version of the journal's format; it changes when a reader of an older one would go wrong."""


class Restarts(NamedTuple):
    """How many were taken from the budget, and how many cost nothing, since nodes changed."""

    spent: int
    membership: int

    @classmethod
    def before(cls, record: Mapping[str, Any]) -> Restarts:
        """By a line's facts, which are those before its actions."""
        facts = record["facts"]
        return cls(facts["max_restarts"] - facts["restarts_left"], facts["membership_restarts"])

    @classmethod
    def after(cls, record: Mapping[str, Any]) -> Restarts:
        """With a line's own actions, for it may be the last one. Had one of them failed, the facts
        of the next line would say what came of it."""
        spent, membership = cls.before(record)
        actions = record.get("actions", [])
        return cls(
            spent + actions.count("spend_restart"),
            membership + actions.count("note_membership_restart"),
        )


@dataclass(slots=True)
class Tally:
    """Sums over the lines so far. ``now`` and ``entered_at`` are monotonic seconds."""

    seq: int = 0
    """The number of the last line."""
    first_time: float | None = None
    last_time: float | None = None
    now: float = 0.0
    state: str = ""
    """Where the machine was after the last line; empty before the first."""
    entered_at: float = 0.0
    visits: int = 0
    """How many states have been entered."""
    worker_state: str = ""
    restarts: int = 0
    membership_restarts: int = 0
    transitions: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """By state, the stays that are over; see :meth:`seconds_in`."""
    outcomes: dict[str, int] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any]) -> None:
        """One more line."""
        self.seq = record.get("seq", self.seq)
        self.last_time = time = record.get("time", self.last_time)
        if self.first_time is None:
            self.first_time = time
        facts = record.get("facts")
        if facts is None:
            return
        outcome = record["outcome"]
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.now = facts["now"]
        self.restarts, self.membership_restarts = Restarts.after(record)
        self.worker_state = record.get("worker_state", self.worker_state)
        if outcome == "step":
            self._add_step(record, facts)
        elif "state" in record:
            self.state, self.entered_at = record["state"], facts["entered_at"]

    def _add_step(self, record: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        name, source = record["transition"], record["source"]
        self.transitions[name] = self.transitions.get(name, 0) + 1
        self.state, self.entered_at = record["dest"], facts["entered_at"]
        if record["entered"]:
            stayed = facts["now"] - facts["entered_at"]
            self.seconds[source] = self.seconds.get(source, 0.0) + stayed
            self.entered_at = facts["now"]
            self.visits += 1

    def seconds_in(self) -> dict[str, float]:
        """By state, the current stay counted up to the last line."""
        if not self.state:
            return dict(self.seconds)
        stay = self.seconds.get(self.state, 0.0) + self.now - self.entered_at
        return self.seconds | {self.state: stay}

    def to_dict(self) -> dict[str, Any]:
        """For the head of a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Tally:
        """The reverse; what it does not know is left out."""
        known = {f.name for f in fields(cls)}
        return cls(**{k: copy.copy(value) for k, value in values.items() if k in known})

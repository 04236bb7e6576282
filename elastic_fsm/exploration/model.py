"""What an exploration speaks of: configurations, moves, claims and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLAIMS", "Configuration", "Exploration", "Finding", "Move", "Outcome", "Workers"]

CLAIMS: Mapping[str, str] = {
    "final": "a final state can be reached from everywhere",
    "budget": "the budget of restarts is never exceeded",
    "stops": "every stop is answered, and the answer is heard",
    "notices": "no notice falls through",
    "waiting": "no state waits for nothing",
    "groups": "no workers are started while others run",
}


class Workers(Enum):
    """What is known of the workers of the current attempt."""

    NONE = "none were started"
    RUN = "all that ended, ended with 0"
    HURT = "some run; some failed or were stopped"
    DONE = "all ended with 0"
    ENDED = "all ended, not all with 0"

    @property
    def running(self) -> bool:
        """Whether some are alive."""
        return self in (Workers.RUN, Workers.HURT)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A state and what matters around it. ``broken``: an action failed, and that comes first."""

    state: str
    asked: frozenset[str]
    timers: frozenset[str]
    left: int
    workers: Workers = Workers.NONE
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """An event on the way, and what the machine made of it."""

    event: str
    data: Mapping[str, Any] = field(default_factory=dict)
    transition: str = ""
    dest: str = ""
    chosen: tuple[tuple[str, bool], ...] = ()
    failed: str = ""
    """The action that failed in this step, or the condition that raised."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that does not hold: the moves that lead there, and what is wrong then."""

    claim: str
    what: str
    budget: int
    moves: tuple[Move, ...]


@dataclass(slots=True)
class Exploration:
    """What was found: nothing means that all claims hold."""

    configurations: int = 0
    moves: int = 0
    complete: bool = True
    findings: dict[str, Finding] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What one event leads to."""

    move: Move
    after: Configuration
    broken_claim: str = ""
    what: str = ""

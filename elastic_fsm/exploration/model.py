"""What an exploration speaks of: configurations, moves, claims and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CLAIMS",
    "Cause",
    "Configuration",
    "Exploration",
    "Finding",
    "Move",
    "Outcome",
    "Workers",
]

CLAIMS: Mapping[str, str] = {
    "final": "from everywhere a final state can be reached, without help from outside",
    "signals": "a stop signal, repeated if need be, ends the run without workers or other nodes",
    "budget": "a failed group starts again only by a restart that is left, or as nodes change",
    "stops": "every stop of workers is answered, and the answer is heard",
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


class Cause(Enum):
    """Where an event comes from, and so whether it can be counted upon."""

    ANSWER = auto()
    TIMER = auto()
    EXIT = auto()
    OUTSIDE = auto()
    ERROR = auto()


@dataclass(frozen=True, slots=True)
class Configuration:
    """A state and what matters around it.

    ``broken``: an action failed, and that comes first. ``owes``: a worker failed, and neither was
    a restart spent since then nor did the nodes change.
    """

    state: str
    asked: frozenset[str]
    timers: frozenset[str]
    left: int
    workers: Workers = Workers.NONE
    broken: bool = False
    owes: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """An event on the way, and what the machine made of it."""

    event: str
    data: Mapping[str, Any] = field(default_factory=dict)
    transition: str = ""
    dest: str = ""
    chosen: tuple[tuple[str, bool], ...] = ()
    failed: str = ""
    """The action or delay that failed in this step, or the condition that raised."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that does not hold: the moves that lead there, and what is wrong then. ``heard``
    are the signals to which the agent listens; a machine may be asked about others, too."""

    claim: str
    what: str
    budget: int
    moves: tuple[Move, ...]
    heard: frozenset[str]


@dataclass(slots=True)
class Exploration:
    """What was found. All claims hold when nothing was, and the exploration is complete."""

    configurations: int = 0
    moves: int = 0
    complete: bool = True
    findings: dict[str, Finding] = field(default_factory=dict)
    follows: set[str] = field(default_factory=set)
    """The claims that do not hold only because somewhere nothing is waited for."""
    taken: set[str] = field(default_factory=set)
    """The transitions that were taken."""
    cut_off: dict[str, set[str]] = field(default_factory=dict)
    """Final states that may be entered while workers run, and the transitions that do so."""

    def verdict(self, claim: str) -> Literal["holds", "broken", "unknown"]:
        """Whether a claim holds."""
        if claim in self.findings or claim in self.follows:
            return "broken"
        return "holds" if self.complete else "unknown"


@dataclass(slots=True)
class Outcome:
    """What one event leads to."""

    move: Move
    after: Configuration
    cause: Cause
    broken_claim: str = ""
    what: str = ""

    def breaks(self, claim: str, what: str) -> None:
        """Note a claim that does not hold here; the first of a step counts."""
        if not self.broken_claim:
            self.broken_claim, self.what = claim, what

"""The snapshot that conditions may read: what the agent knows at the moment of an event."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Facts"]


class Facts(NamedTuple):
    """What is known now. Ranks are local; times are monotonic seconds.

    ``alive`` are those that were reported as started (all at once, when the last one runs) and
    have not ended. ``exit_codes`` holds those that ended in this attempt, in the order in which
    they ended, -n for a death by signal n; ``stopped`` are those that the agent ended.
    """

    now: float = 0.0
    entered_at: float = 0.0
    """When the current state was entered."""
    attempt: int = -1
    local_world_size: int = 1
    alive: tuple[int, ...] = ()
    exit_codes: Mapping[int, int] = MappingProxyType({})
    stopped: tuple[int, ...] = ()
    max_restarts: int = 0
    restarts_left: int = 0
    membership_restarts: int = 0
    """How often the group was formed anew because nodes came or went."""

    @property
    def failures(self) -> dict[int, int]:
        """Exit codes of the workers that failed by themselves."""
        return {
            rank: code
            for rank, code in self.exit_codes.items()
            if code != 0 and rank not in self.stopped
        }

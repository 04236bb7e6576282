"""Where "now" comes from, and how the loop waits.

Waiting belongs to the clock: a real one lets the selector sleep, a manual one (in
``elastic_fsm.testing``) jumps to the next timer, so that hours of a scenario take no time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "SystemClock"]

T = TypeVar("T")


class Clock(Protocol):
    """Monotonic time for decisions, wall time for people."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch."""
        ...

    def wait(self, select: Callable[[float | None], T], timeout: float | None) -> T:
        """Call ``select`` so that it returns when something is ready or ``timeout`` has passed.

        None waits without a limit.
        """
        ...


class SystemClock:
    """The time of this machine."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def wait(self, select: Callable[[float | None], T], timeout: float | None) -> T:
        """Sleep in ``select``."""
        return select(timeout)

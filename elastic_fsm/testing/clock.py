"""A clock for tests and simulations: it jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ManualClock", "NothingCanHappen"]

T = TypeVar("T")


class NothingCanHappen(BaseException):
    """The loop would wait for ever: its inbox is empty and no timer is armed.

    Not an ``Exception``: it is an error of the scenario, which the agent must not take for one
    of its own and end the run in good order.
    """


class ManualClock:
    """Time that passes only when nothing else can happen, and then jumps to the next timer.

    What another thread does is not waited for: use the system's clock with threads.
    """

    def __init__(self, *, epoch: float = 1_700_000_000.0) -> None:
        self._epoch = epoch
        self._now = 0.0

    def now(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def wall(self) -> float:
        """The same as seconds since the epoch."""
        return self._epoch + self._now

    def wait(self, select: Callable[[float | None], T], timeout: float | None) -> T:
        """Take what is ready; else let ``timeout`` pass, which takes no time."""
        ready = select(0.0)
        if not ready:
            if timeout is None:
                raise NothingCanHappen(f"at {self._now:g} s: no event is left and no timer armed")
            self._now += timeout
        return ready

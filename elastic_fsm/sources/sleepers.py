"""Workers that the kernel does not let go: in uninterruptible sleep for too long.

The kernel tells nobody, so somebody has to look; only while there is a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.group import WorkerGroup
    from elastic_fsm.loop import Loop, Timer

__all__ = ["SCOPE", "Sleepers"]

SCOPE = "uninterruptible sleep"
_UNINTERRUPTIBLE = "D"
_LOOKS = 4
"""In the time of the limit; one that is asleep at each is taken to have slept between."""


class Sleepers(Source):
    """Posts ``timer_expired`` for a worker that was asleep at each look for ``limit`` seconds.

    ``state_of(pid)`` is the letter of ``/proc/<pid>/stat``, empty when there is no process. It is
    told once a sleep. The signal is SIGKILL, which takes effect when the kernel lets go.
    """

    def __init__(
        self, loop: Loop, group: WorkerGroup, limit: float, state_of: Callable[[int], str]
    ) -> None:
        self._loop = loop
        self._group = group
        self._limit = limit
        self._state_of = state_of
        self._since: dict[int, float] = {}
        self._told: set[int] = set()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to look."""
        self._timer = self._loop.call_later(self._limit / _LOOKS, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.start()
        pids = {self._group.workers[rank].id: rank for rank in self._group.alive}
        asleep = {pid for pid in pids if self._state_of(pid) == _UNINTERRUPTIBLE}
        now = self._loop.clock.now()
        self._since = {pid: self._since.get(pid, now) for pid in asleep}
        self._told &= asleep
        for pid in sorted(asleep - self._told):
            if now - self._since[pid] >= self._limit:
                self._told.add(pid)
                self._post(pids[pid], pid)

    def _post(self, local_rank: int, pid: int) -> None:
        data = {
            "local_rank": local_rank,
            "pid": pid,
            "scope": SCOPE,
            "after": self._limit,
            "signal": "SIGKILL",
        }
        self._loop.post(Event("timer_expired", data, attempt=self._group.attempt))

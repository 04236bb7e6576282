"""Selector, timers and inbox: everything that happens becomes an event in one queue.

Theory of operation. One thread owns the loop and takes events out of it one by one. Sources
register file descriptors; other threads may only :meth:`Loop.post`, which wakes the selector
through a socket pair. Before each event the descriptors are looked at without
waiting, so that a signal that has just arrived is seen before an older event is acted on: its
source posts it to the front. Nothing here sleeps but the selector, and that only while the
inbox is empty.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.clock import Clock
    from elastic_fsm.events import Event

__all__ = ["Loop", "Timer"]

# epoll counts milliseconds in an int: after 24 days it would overflow.
_LONGEST_WAIT = 86_400.0


class Timer:
    """A call at a point in time; :meth:`cancel` undoes it."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Make sure that it never fires; the loop drops it when its time comes."""
        self.callback = None


class Loop:
    """The one queue of events of an agent."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._inbox: deque[Event] = deque()
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, selectors.SelectorKey] = {}
        self._owner = threading.get_ident()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self.watch(self._wake_read, self._drain_wakeups)

    def post(self, event: Event) -> None:
        """Put an event at the end of the inbox; safe from any thread."""
        self._inbox.append(event)
        self._wake()

    def post_first(self, event: Event) -> None:
        """Put an event at the front of the inbox; safe from any thread."""
        self._inbox.appendleft(event)
        self._wake()

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` in the loop's thread, before the next event; safe from any thread."""
        self._soon.append(callback)
        self._wake()

    def watch(self, readable: Any, callback: Callable[[], None]) -> None:
        """Call ``callback`` in the loop's thread whenever the descriptor is readable."""
        key = self._selector.register(readable, selectors.EVENT_READ, callback)
        self._watched[key.fd] = key

    def unwatch(self, readable: Any) -> None:
        """Stop watching a descriptor; before it is closed."""
        with suppress(KeyError, ValueError):
            del self._watched[self._selector.unregister(readable).fd]

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback`` in the loop's thread after so many seconds."""
        timer = Timer(self.clock.now() + seconds, callback)
        heapq.heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    def postpone(self, seconds: float) -> None:
        """Move all timers: the process stood still for so long, with everybody it waits for."""
        for _, _, timer in self._timers:
            timer.when += seconds
        self._timers = [(timer.when, order, timer) for _, order, timer in self._timers]

    def next_event(self) -> Event:
        """The next event; waits for one when there is none."""
        self._run_ready(wait=False)
        while not self._inbox:
            self._run_ready(wait=True)
        return self._inbox.popleft()

    def left(self) -> list[Event]:
        """The events that nobody has taken; afterwards there are none. For closing down."""
        events = list(self._inbox)
        self._inbox.clear()
        return events

    def run_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Serve descriptors and timers, but no events, until ``done()``; for closing down."""
        limit = self.call_later(timeout, lambda: None)
        while not done():
            if self.clock.now() >= limit.when:
                return False
            self._run_ready(wait=True)
        limit.cancel()
        return True

    def close(self) -> None:
        """Close what the loop itself opened."""
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def _run_ready(self, *, wait: bool) -> None:
        timeout = self._until_next_timer() if wait and not self._soon else 0.0
        for key, _ in self.clock.wait(self._selector.select, timeout):
            # Not if a callback of the same look has unwatched it; its number may be reused.
            if self._watched.get(key.fd) is key:
                key.data()
        while self._soon:
            self._soon.popleft()()
        self._fire_timers()

    def _until_next_timer(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return min(max(0.0, self._timers[0][0] - self.clock.now()), _LONGEST_WAIT)

    def _fire_timers(self) -> None:
        now = self.clock.now()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()

    def _wake(self) -> None:
        if threading.get_ident() != self._owner:
            with suppress(OSError):  # full: the loop is awake anyway
                self._wake_write.send(b"\0")

    def _drain_wakeups(self) -> None:
        with suppress(BlockingIOError):
            while self._wake_read.recv(4096):
                pass

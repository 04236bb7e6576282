"""Signs of life, by which nodes hear of one that was killed, or cut off.

The nodes of a round stand in a ring. Each writes a beat, a value that is new every time, and looks
at that of the node before it: one write and one read for each node and interval, however many
there are. With a beat a node promises the next within some seconds, or says that it rests:
it is about to wait for something that may take any time, and whoever looks passes over it.

A node is silent when the promised time has passed on the clock of the one that looks (clocks of
two hosts are never compared), and that one has looked several times for nothing. A look that fails
is none. One that comes late is the first again: it was not the other that stood still.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Heartbeat", "Pace", "Silence", "pace_of"]

_LATE = 3
"""Intervals between two looks that are too long to say anything about the other node."""


class Pace(NamedTuple):
    """A beat every ``interval`` seconds, of which ``attempts`` in a row may be missed.

    A node that may be kept from beating for ``grace`` seconds promises the next beat that much
    later. Names and defaults are those of torch's ``keep_alive_interval`` and
    ``keep_alive_max_attempt``.
    """

    interval: float = 5.0
    attempts: int = 3
    grace: float = 0.0

    @property
    def within(self) -> float:
        """The longest time from a beat to the next, in seconds."""
        return self.interval * self.attempts + self.grace


def pace_of(handler: Any) -> Pace:
    """What the handler's own settings say, else the default; torch's dynamic ones have settings."""
    settings = getattr(handler, "settings", None)
    interval = getattr(settings, "keep_alive_interval", None)
    attempts = getattr(settings, "keep_alive_max_attempt", None)
    if not (isinstance(interval, timedelta) and isinstance(attempts, int)):
        return Pace()
    return Pace(interval.total_seconds(), attempts) if interval and attempts > 0 else Pace()


class Silence(NamedTuple):
    """A node that has not beaten for some seconds."""

    rank: int
    seconds: float


class _Seen(NamedTuple):
    """What stood there, since when on our clock, and how often it was looked at again."""

    rank: int
    value: bytes
    since: float
    looks: int = 0


class Heartbeat:
    """The part of node ``rank`` of ``size``, through a store whose keys are ``key(rank)``.

    Whoever has the node's ``begin`` behind it may look for its beats.
    """

    def __init__(
        self,
        store: Any,
        key: Callable[[int], str],
        rank: int,
        size: int,
        pace: Pace,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._key = key
        self._rank = rank
        self._pace = pace
        self._now = now
        self._others = [(rank - back) % size for back in range(1, size)]
        self._count = 0
        self._looked = now()
        self._seen: _Seen | None = None

    def begin(self, *, at_rest: bool) -> None:
        """The first sign of life: what stood under the key is of an earlier try."""
        self._write(None if at_rest else self._pace.within)

    def beat(self) -> Silence | None:
        """Do what is due now, mostly nothing; who is silent, if anybody is.

        To be called often. Raises what the store raises; then nobody is said to be silent, and
        the next look is as the first.
        """
        now = self._now()
        gap = now - self._looked
        if gap < self._pace.interval:
            return None
        seen, self._seen, self._looked = self._seen, None, now
        self._write(self._pace.within)
        found = self._look(now)
        if found is None:
            return None
        is_late = gap > _LATE * self._pace.interval
        if seen is None or (seen.rank, seen.value) != (found.rank, found.value) or is_late:
            self._seen = found
            return None
        self._seen = seen._replace(looks=seen.looks + 1)
        return self._judge(self._seen, now)

    def rest(self) -> None:
        """Promise nothing until the next beat."""
        self._write(None)

    def _write(self, within: float | None) -> None:
        self._count += 1
        value = {"beat": self._count, "within": within}
        self._store.set(self._key(self._rank), json.dumps(value))

    def _look(self, now: float) -> _Seen | None:
        """The nearest node before this one that does not rest; None when all do."""
        for rank in self._others:
            value = self._store.get(self._key(rank))
            if _within(value) is not None:
                return _Seen(rank, value, now)
        return None

    def _judge(self, seen: _Seen, now: float) -> Silence | None:
        """It is silent once it was looked at often enough, too, to rule out that it was this node
        that stood still."""
        seconds, within = now - seen.since, _within(seen.value)
        if within is None or seconds < within or seen.looks < self._pace.attempts:
            return None
        return Silence(seen.rank, seconds)


def _within(value: bytes) -> float | None:
    within: float | None = json.loads(value)["within"]
    return within

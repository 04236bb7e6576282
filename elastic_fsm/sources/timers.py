"""The timers that workers set on themselves, as events.

Workers write requests into a named pipe (see ``elastic_fsm.timer``). An expired timer becomes
``timer_expired``; what comes of that is for the machine to say. A timer is that of the attempt in
which it was set, and dies with it.

The time of a request is that of the wall clock. It is turned into time that is left as soon as it
is read: a clock that is set afterwards moves no timer. When agent and workers stand still
together, what was left before is left after.
"""

from __future__ import annotations

import errno
import functools
import json
import math
import os
import signal as signals
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.group import WorkerGroup
    from elastic_fsm.loop import Loop, Timer

__all__ = ["FileTimerRequest", "FileTimers", "is_taken", "refuse_unusable", "worker_of"]

_READ_AT_ONCE = 65536
_LONGEST_LINE = 4096
_LONGEST_SCOPE = 200
_UNTIL_KNOWN = 0.1
_STOOD_STILL = 1.0
"""Seconds. A timer that fires later than that, fires in an agent that did not run: its worker
perhaps did not, either (both in a container that is paused), and gets the time once more."""


@dataclass(frozen=True, slots=True)
class FileTimerRequest:
    """A request. ``expiration_time`` is epoch seconds, negative to take the timer back;
    ``signal`` is what ends the worker, 0 or less when it is not to be ended."""

    worker_pid: int
    scope_id: str
    expiration_time: float
    signal: int

    @classmethod
    def read(cls, line: bytes) -> FileTimerRequest:
        """Raises ``ValueError``, ``TypeError``, ``KeyError`` or ``RecursionError`` for a line
        that is no request."""
        values = json.loads(line)
        # The end of a long name tells more: it is a line number, mostly.
        scope = str(values["scope_id"])[-_LONGEST_SCOPE:]
        request = cls(
            int(values["pid"]), scope, float(values["expiration_time"]), int(values["signal"])
        )
        if request.worker_pid < 1 or math.isnan(request.expiration_time):
            raise ValueError("no process has such a number, or no clock such a time")
        if request.signal > 0:
            signals.Signals(request.signal)  # a ValueError where there is none of this number
        return request

    @property
    def signal_name(self) -> str:
        """``SIGKILL``; empty when the worker is not to be ended."""
        return signals.Signals(self.signal).name if self.signal > 0 else ""


class FileTimers(Source):
    """Reads the requests of a group's workers from a named pipe at ``path``.

    The pipe is made, in a folder of its own where that is not there yet, and removed at the end.
    ``say`` is told, once, of what is no request.
    """

    def __init__(
        self, loop: Loop, path: str, group: WorkerGroup, say: Callable[[str], object]
    ) -> None:
        self.path = path
        self._loop = loop
        self._group = group
        self._say = say
        self._timers: dict[tuple[int, str], Timer] = {}
        self._folder = ""
        self._pipe: int | None = None
        self._own_end = -1
        self._rest = b""
        self._has_said = False

    def start(self) -> None:
        """Make the pipe and begin to read. Raises ``OSError`` where that cannot be done: also
        when another agent reads there."""
        self._folder = _make_pipe(self.path)
        self._pipe = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Our own writing end: without a writer the pipe would be at its end all the time.
        self._own_end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._loop.watch(self._pipe, self._read)

    def stop(self) -> None:
        """Take all timers back: the workers are about to be stopped. New ones may be set."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def close(self) -> None:
        """Remove the pipe; calling it again does nothing."""
        self.stop()
        if self._pipe is None:
            return
        self._loop.unwatch(self._pipe)
        os.close(self._pipe)
        os.close(self._own_end)
        self._pipe = None
        _remove_pipe(self.path, self._folder)

    def _read(self) -> None:
        assert self._pipe is not None
        *lines, self._rest = (self._rest + os.read(self._pipe, _READ_AT_ONCE)).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            try:
                request = FileTimerRequest.read(line)
            except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
                self._complain(line)
            else:
                self._take(request)

    def _complain(self, line: bytes) -> None:
        """Once: who writes such a line may write thousands."""
        if not self._has_said:
            self._has_said = True
            self._say(f"a line in {self.path} is no request for a timer: {line[:100]!r}")

    def _take(self, request: FileTimerRequest) -> None:
        old = self._timers.pop(_key(request), None)
        if old is not None:
            old.cancel()
        if request.expiration_time >= 0:
            left = request.expiration_time - self._loop.clock.wall()
            if left <= 0:  # was it read late? its worker may be about to take it back
                left = _STOOD_STILL
            self._arm(left, _Set(request, round(left, 3), self._group.attempt))

    def _arm(self, seconds: float, timer: _Set) -> None:
        expire = functools.partial(self._expire, timer)
        self._timers[_key(timer.request)] = self._loop.call_later(seconds, expire)

    def _expire(self, timer: _Set) -> None:
        late = self._loop.clock.now() - self._timers.pop(_key(timer.request)).when
        if late > _STOOD_STILL:
            self._arm(late, timer)
        elif timer.attempt == self._group.attempt:
            self._tell(timer)

    def _tell(self, timer: _Set) -> None:
        local_rank = worker_of(self._group, timer.request.worker_pid)
        if local_rank is not None:
            data = timer.as_data(local_rank)
            self._loop.post(Event("timer_expired", data, attempt=timer.attempt))
        elif any(worker.id is None for worker in self._group.workers):
            self._arm(_UNTIL_KNOWN, timer)  # perhaps of one that is just being started


@dataclass(frozen=True, slots=True)
class _Set:
    """A timer that runs: ``after`` is the time in seconds that its worker has."""

    request: FileTimerRequest
    after: float
    attempt: int

    def as_data(self, local_rank: int) -> dict[str, Any]:
        return {
            "local_rank": local_rank,
            "pid": self.request.worker_pid,
            "scope": self.request.scope_id,
            "after": self.after,
            "signal": self.request.signal_name,
        }


def _key(request: FileTimerRequest) -> tuple[int, str]:
    return request.worker_pid, request.scope_id


def worker_of(group: WorkerGroup, pid: int) -> int | None:
    """The local rank of the living worker that a process is, or in whose session it is."""
    try:
        session = os.getsid(pid)
    except (OSError, OverflowError):  # it has ended, or there never was one
        return None
    ranks = {group.workers[rank].id: rank for rank in group.alive}
    rank: int | None = ranks.get(pid, ranks.get(session))
    return rank


def is_taken(path: str) -> bool:
    """Whether something stands there that must stay: anything but the pipe of an agent that was
    killed, which nobody reads."""
    try:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            return True
    except OSError:
        return False
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno != errno.ENXIO
    return True


def refuse_unusable(path: str) -> None:
    """Raises ``OSError`` where no pipe can be made; whether one can is known by doing it."""
    _remove_pipe(path, _make_pipe(path))


def _make_pipe(path: str) -> str:
    """Make it, also in place of one that nobody reads; the folder that was made for it, if any."""
    folder = os.path.dirname(path)
    made = folder if folder and not os.path.isdir(folder) else ""
    if made:
        os.mkdir(folder, 0o700)
    try:
        if os.path.exists(path) and not is_taken(path):
            os.unlink(path)
        os.mkfifo(path, 0o600)
    except OSError:
        if made:
            os.rmdir(made)
        raise
    return made


def _remove_pipe(path: str, folder: str) -> None:
    with suppress(OSError):  # somebody was faster
        os.unlink(path)
        if folder:
            os.rmdir(folder)

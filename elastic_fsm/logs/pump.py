"""The console's thread: the only reader of the log files and the only writer to the console.

One turn: run what the other threads have asked for; read whole lines from the files that have
changed, one block from each in turn, as long as the console takes them; write; then wait for
the next reason to work. Reasons are a request, a changed file, a console that takes more, and,
on a terminal only, the status line's next second.

Two rules keep it cheap and fair:

* After the thread was told of changed files it does not listen for more for ``REST`` seconds.
  Waking up for every single line would cost more than echoing it.
* What a slow console does not take stays in the files, not in memory: a file is read only while
  its sink is not behind by ``BACKLOG`` bytes. Requests are not held up by that.
"""

from __future__ import annotations

import errno
import os
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastic_fsm.logs.watches import Watches

if TYPE_CHECKING:
    import threading
    from collections import deque
    from collections.abc import Callable, Iterable

    from elastic_fsm.logs.sink import Sink
    from elastic_fsm.logs.status import StatusLine
    from elastic_fsm.logs.tail import Tail

__all__ = ["Pump"]

REST = 0.005
BACKLOG = 64 * 1024
TICK = 1.0


@dataclass(eq=False, slots=True)
class _Drain:
    """Somebody waits until these files, and all that was put before, are on the console."""

    done: threading.Event
    tails: set[Tail]
    is_last: bool
    goals: dict[Sink, int] | None = None  # known when the files have been read to their end


class Pump:
    """The loop. Its methods run in its own thread; others send them to the inbox."""

    def __init__(
        self,
        inbox: deque[Callable[[], None]],
        wake_fd: int,
        *,
        sinks: tuple[Sink, Sink],
        status: StatusLine,
    ) -> None:
        self._inbox = inbox
        self._wake_fd = wake_fd
        self._sink_of = dict(zip(("stdout", "stderr"), sinks, strict=True))
        self._sinks = list(dict.fromkeys(sinks))  # one, if both lead to the same place
        self._status = status
        self._watches = Watches()
        self._tails: set[Tail] = set()
        self._changed: dict[Tail, None] = {}  # an ordered set: the order of service
        self._drains: list[_Drain] = []
        self._rest_until = 0.0
        self._tick_at = 0.0
        self._is_running = True
        self._has_told_of_loss = False

    def run(self) -> None:
        """Work until told to stop."""
        while self._is_running:
            self._run_requests()
            self._serve_files()
            self._tick()
            self._write()
            self._settle_drains()
            if self._is_running:
                self._wait()

    def close(self) -> None:
        """Give everything back and let nobody wait any longer.

        Words that came too late for the loop are written if the console takes them at once.
        """
        self._run_requests()
        for sink in self._sinks:
            sink.flush()
            sink.close()
        for drain in self._drains:
            drain.done.set()
        for tail in self._tails:
            tail.close()
        self._watches.close()

    # What other threads ask for.

    def say(self, data: bytes) -> None:
        """Queue the agent's own lines."""
        self._sink_of["stderr"].put(data, self)

    def set_status(self, text: str | Callable[[], str] | None) -> None:
        """Replace the status line's text."""
        self._tick_at = time.monotonic() + TICK
        self._refresh_status(lambda: self._status.set(text))

    def follow(self, tail: Tail) -> None:
        """Start to echo a file."""
        self._tails.add(tail)
        self._changed[tail] = None

    def finish(self, tail: Tail) -> None:
        """Echo the rest of a file, then forget it."""
        if tail in self._tails:
            self._changed[tail] = None
            try:
                tail.end()
            except OSError as error:
                self._leave(tail, error)

    def drain(self, done: threading.Event, *, is_last: bool = False) -> None:
        """Set ``done`` when all that was said and finished so far is on the console.

        The last drain also ends the console's open line and removes the status line.
        """
        ending = {tail for tail in self._tails if tail.ending}
        self._drains.append(_Drain(done, ending, is_last))

    def stop(self) -> None:
        """End the loop after this turn; what is not written by then is dropped."""
        self._is_running = False

    def _run_requests(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    # Files.

    def _serve_files(self) -> None:
        """Read a block from each changed file whose sink takes it, in turn."""
        self._mark_changed(self._watches.due())
        for tail in list(self._changed):
            sink = self._sink_of[tail.stream]
            if sink.pending < BACKLOG:
                del self._changed[tail]
                self._serve(tail, sink)

    def _serve(self, tail: Tail, sink: Sink) -> None:
        piece = b"" if sink.error else self._read(tail)
        if piece:
            sink.put(tail.lines.render(piece, joined=sink.goes_on(tail)), tail)
        if sink.error or (tail.ending and not tail.more):
            self._forget(tail)
        elif tail.more:
            self._changed[tail] = None  # at the end of the queue

    def _read(self, tail: Tail) -> bytes:
        self._watches.arm(tail)
        try:
            return tail.read()
        except OSError as error:
            self._leave(tail, error)
            return b""

    def _leave(self, tail: Tail, error: OSError) -> None:
        self.say(f"cannot read {tail.path} any longer: {error.strerror}\n".encode())
        tail.give_up()

    def _forget(self, tail: Tail) -> None:
        self._tails.discard(tail)
        self._watches.remove(tail)
        tail.close()

    def _mark_changed(self, tails: Iterable[Tail]) -> None:
        self._changed.update(dict.fromkeys(tails))

    # The console.

    def _tick(self) -> None:
        now = time.monotonic()
        if self._status.ticks and now >= self._tick_at:
            self._tick_at = max(self._tick_at + TICK, now)
            self._refresh_status(self._status.tick)

    def _refresh_status(self, refresh: Callable[[], None]) -> None:
        try:
            refresh()
        except Exception as error:  # a broken decoration must not silence the workers
            self.say(f"the status line is given up: {error!r}\n".encode())

    def _write(self) -> None:
        for sink in self._sinks:
            if sink.flush():
                sink.draw_status()
                sink.flush()
        self._tell_of_loss(self._sink_of["stdout"].error)

    def _tell_of_loss(self, error: OSError | None) -> None:
        """Say once that standard output is gone, unless its reader has simply had enough."""
        if error and error.errno != errno.EPIPE and not self._has_told_of_loss:
            self._has_told_of_loss = True
            self.say(f"standard output is lost: {error.strerror}\n".encode())
            self._sink_of["stderr"].flush()

    def _settle_drains(self) -> None:
        for drain in list(self._drains):
            drain.tails &= self._tails
            if drain.goals is None and not drain.tails:
                drain.goals = self._goals(is_last=drain.is_last)
            if drain.goals is not None and all(s.taken >= n for s, n in drain.goals.items()):
                self._drains.remove(drain)
                drain.done.set()

    def _goals(self, *, is_last: bool) -> dict[Sink, int]:
        if is_last:
            self._status.set(None)
            for sink in self._sinks:
                sink.end_line()
            self._write()
        return {sink: sink.accepted for sink in self._sinks}

    # Waiting.

    def _wait(self) -> None:
        """Wait for a reason to work, unless there is one already."""
        now = time.monotonic()
        is_busy = any(self._sink_of[tail.stream].pending < BACKLOG for tail in self._changed)
        is_resting = now < self._rest_until
        if is_busy and is_resting:
            return
        poller = select.poll()
        poller.register(self._wake_fd, select.POLLIN)
        if self._watches.fd is not None and not is_resting:
            poller.register(self._watches.fd, select.POLLIN)
        for sink in self._sinks:
            if sink.pending:
                poller.register(sink.fd, select.POLLOUT)
        self._take_note(poller.poll(0 if is_busy else self._patience(now)))

    def _patience(self, now: float) -> float | None:
        """How long to wait at most, in milliseconds; None: for ever."""
        times = [self._rest_until] if now < self._rest_until else []
        if self._status.ticks:
            times.append(self._tick_at)
        if (look := self._watches.next_look()) is not None:
            times.append(look)
        return max(0.0, min(times) - now) * 1000 if times else None

    def _take_note(self, ready: list[tuple[int, int]]) -> None:
        for fd, _ in ready:
            if fd == self._wake_fd:
                os.read(fd, 4096)
            elif fd == self._watches.fd:
                self._rest_until = time.monotonic() + REST
                self._mark_changed(self._watches.changed())

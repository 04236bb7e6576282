"""Signals as events, by the interpreter's wake-up descriptor.

The interpreter's own C handler writes the signal's number into a socket; the Python handler
does nothing. So a signal interrupts no code of ours: it is an event like the others, except
that it goes to the front of the inbox. A signal that was ignored when the agent was started
(``nohup``, a shell's background job) stays ignored.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.loop import Loop
from elastic_fsm.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Signals", "loop_with_signals"]


class Signals(Source):
    """Posts ``signal_received`` for the named signals, and makes the calls of :meth:`call`.

    Bytes of other signals go to whoever read the wake-up descriptor before. Handlers belong to
    the main thread; started in another one, it watches nothing, and the caller should say so
    (:attr:`available`).
    """

    def __init__(self, loop: Loop, names: Iterable[str]) -> None:
        self._loop = loop
        self._numbers = [signal.Signals[name] for name in sorted(set(names))]
        self._old_handlers: dict[int, Any] = {}
        self._old_wakeup = -1
        self._calls: dict[int, Callable[[], None]] = {}
        self._read: socket.socket | None = None
        self._write: socket.socket | None = None

    @property
    def available(self) -> bool:
        """Whether handlers can be set here."""
        return threading.current_thread() is threading.main_thread()

    def start(self) -> None:
        """Set the handlers; what was set before comes back at :meth:`close`."""
        if not self.available:
            return
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._loop.watch(self._read, self._post_all)
        self._old_wakeup = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        _LISTENING.add(self)
        for number in self._numbers:
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN:
                self._old_handlers[number] = handler  # noted before it is replaced
                signal.signal(number, _do_nothing)

    def call(self, number: signal.Signals, callback: Callable[[], None]) -> None:
        """Call ``callback`` in the loop's thread at each signal of a kind, once it is started.

        A signal that is posted as an event, or that the program has a handler of its own for,
        or ignores, is left alone.
        """
        if self._read is not None and signal.getsignal(number) is signal.SIG_DFL:
            self._calls[number] = callback
            self._old_handlers[number] = signal.signal(number, _do_nothing)

    def waiting(self) -> set[int]:
        """Those that have come, and are to be posted: bytes of others are there, too."""
        come = self._numbers_read(socket.MSG_PEEK)
        return {number for number in self._numbers if number in come}

    def close(self) -> None:
        """Give the signals back to whoever had them, also those that nobody has taken up yet."""
        if self._read is None or self._write is None:
            return
        taken = set(self._old_handlers)
        self._give_back(self._old_wakeup)
        late = taken.intersection(self._numbers_read())
        self._loop.unwatch(self._read)
        self._read.close()
        self._write.close()
        self._read = self._write = None
        for number in late:
            signal.raise_signal(number)

    def _give_back(self, wakeup: int) -> None:
        _LISTENING.discard(self)
        for number, handler in self._old_handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._old_handlers.clear()
        signal.set_wakeup_fd(wakeup)

    def _numbers_read(self, flags: int = 0) -> bytes:
        # An interrupt may have come before :meth:`start` has made the socket one that never waits.
        with suppress(BlockingIOError):
            return self._read.recv(4096, socket.MSG_DONTWAIT | flags) if self._read else b""
        return b""

    def _pass_on(self, number: int) -> None:
        """An event loop around this run may wait for a signal of its own."""
        if self._old_wakeup >= 0:
            with suppress(OSError):
                os.write(self._old_wakeup, bytes([number]))

    def _post_all(self) -> None:
        # Last first, since each goes to the front.
        for number in reversed(self._numbers_read()):
            if number not in self._old_handlers:
                self._pass_on(number)
            elif number in self._calls:
                self._calls[number]()
            else:
                name = signal.Signals(number).name
                self._loop.post_first(Event("signal_received", {"signal": name}))


@contextmanager
def loop_with_signals(names: Iterable[str]) -> Iterator[tuple[Loop, Signals]]:
    """A loop of the system's clock that hears of the named signals; at the end they are given back.

    Whenever an interrupt comes, before the signals are taken up or after, all is closed.
    """
    with closing(Loop(SystemClock())) as loop, closing(Signals(loop, names)) as signals:
        signals.start()
        yield loop, signals


def _forget_in_child() -> None:
    """A child forked by the user's program shares our socket: its signals must not be ours."""
    for signals in list(_LISTENING):
        signals._give_back(-1)


_LISTENING: set[Signals] = set()
os.register_at_fork(after_in_child=_forget_in_child)


def _do_nothing(*_: Any) -> None:
    """The wake-up descriptor has already told everything."""

"""The console: the agent's words, the workers' echoed lines and the status line, never mixed.

Threads that write to one console stream break each other's lines. So a single thread owns both
console descriptors (see ``pump``), and everything here only queues a request for it and wakes
it: the agent's main loop goes on in microseconds, however slow the console is.

The workers are not involved. They write to their own files; the thread reads those. Hence the
order on the console is that of each file, and of the agent's own lines among themselves; between
the two only ``finish`` and ``drain`` make an order.

The thread takes no signals: they stay with the main thread, and a broken pipe is an error
number. If it fails, the exception is kept in ``Console.error`` and shown once, and the agent's
own words are written directly from then on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

from elastic_fsm.logs.pump import Pump
from elastic_fsm.logs.sink import Sink, same_file, write_now
from elastic_fsm.logs.status import StatusLine
from elastic_fsm.logs.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

__all__ = ["Console"]

# How long a console that was too slow for close() may hold up a direct write, in seconds.
_PATIENCE_AFTER_CLOSE = 1.0
# Signals that a fault raises in the thread itself; blocking them would hide the fault.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class Console:
    """The console of one agent: all methods may be called from any thread.

    ``out_fd`` and ``err_fd`` are the descriptors of standard output and standard error; they
    stay open and their flags as they are. ``live_status`` says whether there is a status line;
    None means if ``err_fd`` is a terminal that can draw one.
    """

    def __init__(
        self, *, out_fd: int = 1, err_fd: int = 2, live_status: bool | None = None
    ) -> None:
        self.error: BaseException | None = None  # what ended the thread, if anything did
        self._err_fd = err_fd
        self._is_live = _can_draw(err_fd) if live_status is None else live_status
        self._patience: float | None = None
        self._followed: dict[Path, Tail] = {}
        self._inbox: deque[Callable[[], None]] = deque()
        # Reentrant, because a signal handler may say something while its thread does.
        self._lock = threading.RLock()
        self._is_running = False
        self._is_closed = False
        self._wake_fd, self._waker_fd = os.pipe()
        os.set_blocking(self._waker_fd, False)
        self._pump = self._make_pump(out_fd, err_fd)
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    def _make_pump(self, out_fd: int, err_fd: int) -> Pump:
        status = StatusLine()
        err = Sink(err_fd, status=status if self._is_live else None)
        out = err if same_file(out_fd, err_fd) else Sink(out_fd)
        return Pump(self._inbox, self._wake_fd, sinks=(out, err), status=status)

    def start(self) -> None:
        """Start the thread. Does nothing when it runs or the console is closed."""
        with self._lock:
            if not self._is_running and not self._is_closed:
                self._is_running = True
                self._thread.start()

    def say(self, text: str) -> None:
        """Write one or more whole lines of the agent's own to standard error.

        Never blocks while the thread runs. Before start() and after close() the text is written
        directly, which waits for the console.
        """
        data = text.encode("utf-8", "backslashreplace")
        data = data if data.endswith(b"\n") else data + b"\n"
        if not self._post(partial(self._pump.say, data)):
            write_now(self._err_fd, data, patience=self._patience)

    def status(self, text: str | Callable[[], str] | None) -> None:
        """Show a status line at the bottom of the terminal; None removes it.

        Plain text, cut to the terminal's width. A function is called once a second, by the
        console's thread, for as long as it is the status. Does nothing if the console is not
        live.
        """
        if self._is_live:
            self._post(partial(self._pump.set_status, text))

    def follow(
        self,
        path: Path,
        *,
        stream: Literal["stdout", "stderr"],
        prefix: bytes,
        offset: int = 0,
        only: Collection[bytes] = (),
    ) -> None:
        """Echo a file's lines, each with the prefix, beginning at ``offset`` bytes.

        With ``only``, those that hold one of these words.

        ``stream`` says to which of the two console descriptors. Raises OSError if the file cannot
        be opened, and ValueError if it is being followed already.
        """
        with self._lock:
            if self._is_closed:
                return
            if path in self._followed:
                raise ValueError(f"{path} is followed already")
            tail = Tail(path, stream=stream, prefix=prefix, offset=offset, only=only)
            self._followed[path] = tail
            self._request(partial(self._pump.follow, tail))

    def finish(self, path: Path) -> None:
        """Say that the file's writers have ended: echo what is left, then stop following.

        An unfinished last line is echoed too, with a newline added. Does not wait; see drain().
        Does nothing for a file that is not followed.
        """
        with self._lock:
            tail = self._followed.pop(path, None)
            if tail is not None:
                self._request(partial(self._pump.finish, tail))

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until all that was said, and all of the finished files, is on the console.

        Returns False if the console has not taken it within ``timeout`` seconds, and True at once
        when the thread does not run.
        """
        return self._drain(timeout, is_last=False)

    def close(self, timeout: float | None = None) -> None:
        """Finish all files, drain, remove the status line and end the thread.

        With a ``timeout`` in seconds, a console that does not take the rest by then loses it.
        Calling it again does nothing.
        """
        with self._lock:
            if self._is_closed:
                return
            for path in list(self._followed):
                self.finish(path)
            self._is_closed = True
        if not self._drain(timeout, is_last=True):
            self._patience = _PATIENCE_AFTER_CLOSE
        self._end_thread()

    def _drain(self, timeout: float | None, *, is_last: bool) -> bool:
        done = threading.Event()
        with self._lock:
            if not self._is_running:
                return True
            self._request(partial(self._pump.drain, done, is_last=is_last))
        return done.wait(timeout) and self.error is None

    def _end_thread(self) -> None:
        with self._lock:
            if self._thread.ident is None:
                self._give_back()
                return
            self._request(self._pump.stop)
        # The thread never blocks in a write, so this ends at once; the bound is for a system
        # that says a console is writable and then is not.
        self._thread.join(_PATIENCE_AFTER_CLOSE)

    def _post(self, request: Callable[[], None]) -> bool:
        """Ask the thread for something; False if it does not run."""
        with self._lock:
            if self._is_running:
                self._request(request)
            return self._is_running

    def _request(self, request: Callable[[], None]) -> None:
        self._inbox.append(request)
        if self._is_running:
            with suppress(BlockingIOError):  # it has not even noticed the earlier ones
                os.write(self._waker_fd, b"\0")

    def _run(self) -> None:
        """The thread."""
        _refuse_signals()
        try:
            self._pump.run()
        except BaseException as error:
            self.error = error
            self._show(error)
        with self._lock:
            self._is_running = False
            self._give_back()

    def _show(self, error: BaseException) -> None:
        import traceback  # 3 ms, for something that should never be needed

        text = "".join(traceback.format_exception(error))
        write_now(self._err_fd, text.encode(), patience=_PATIENCE_AFTER_CLOSE)

    def _give_back(self) -> None:
        self._pump.close()
        os.close(self._wake_fd)
        os.close(self._waker_fd)


def _can_draw(fd: int) -> bool:
    return os.isatty(fd) and os.environ.get("TERM", "dumb") != "dumb"


def _refuse_signals() -> None:
    """Leave all signals to the other threads, so that those are the ones interrupted."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)

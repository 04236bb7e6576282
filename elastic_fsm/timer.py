"""Timers that a worker sets on itself: should it not come back in time, the agent hears of it.

    from elastic_fsm.timer import expires

    with expires(after=60):
        step()

Standard library only: importing it into a training script costs nothing. The names and the
format of a request are those of ``torch.distributed.elastic.timer``'s file timers: one line of
JSON in a named pipe, ``{"version": 1, "pid": …, "scope_id": …, "expiration_time": epoch seconds,
"signal": …}``; a negative time takes the timer back.

A worker that writes waits while the pipe is full, which it is only when the agent stands still.
"""

from __future__ import annotations

import json
import os
import signal as signals
import sys
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TIMER_FILE", "FileTimerClient", "TimerClient", "configure", "expires"]

TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
"""Variable that holds the path of the agent's pipe."""


_LONGEST_SCOPE = 200
"""Characters: a line must fit into one write. The end of a name tells more than its beginning."""


class TimerClient(ABC):
    """Asks for timers."""

    @abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Ask for a timer that expires at that epoch time; one of the same scope is replaced."""

    @abstractmethod
    def release(self, scope_id: str) -> None:
        """Take the timer of a scope back."""


class FileTimerClient(TimerClient):
    """Asks the agent through its named pipe; an expired timer ends the worker with ``signal``.

    Raises ``BrokenPipeError`` when there is no agent at the other end.
    """

    def __init__(self, file_path: str, signal: int = signals.SIGKILL) -> None:
        self._file_path = file_path
        self.signal = signal

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """See :meth:`TimerClient.acquire`."""
        self._ask(scope_id, expiration_time, self.signal)

    def release(self, scope_id: str) -> None:
        """See :meth:`TimerClient.release`."""
        self._ask(scope_id, -1.0, 0)

    def _ask(self, scope_id: str, expiration_time: float, signal: int) -> None:
        request = {
            "version": 1,
            "pid": os.getpid(),
            "scope_id": scope_id[-_LONGEST_SCOPE:],
            "expiration_time": expiration_time,
            "signal": signal,
        }
        self._send(json.dumps(request).encode() + b"\n")

    def _send(self, line: bytes) -> None:
        """Short enough not to be mixed with others' lines."""
        try:
            pipe = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise BrokenPipeError(f"no agent reads {self._file_path}: {error.strerror}") from error
        try:
            os.set_blocking(pipe, True)  # there is a reader; a lost release would end the worker
            os.write(pipe, line)
        finally:
            os.close(pipe)


_client: list[TimerClient] = []


def configure(timer_client: TimerClient) -> None:
    """Use this client from now on, in this process."""
    _client[:] = [timer_client]


def _configured() -> TimerClient:
    if not _client:
        path = os.environ.get(TIMER_FILE)
        if not path:
            raise RuntimeError(
                f"there are no timers here: neither configure() was called nor is {TIMER_FILE} set"
            )
        configure(FileTimerClient(path))
    return _client[0]


@contextmanager
def expires(
    after: float, scope: str | None = None, client: TimerClient | None = None
) -> Iterator[None]:
    """The block must be left within ``after`` seconds, else the worker counts as failed.

    ``scope`` names the timer (by default the place of the call); ``client`` is used instead of
    the configured one. Raises ``RuntimeError`` when there is none.
    """
    asks = client or _configured()
    name = scope or _place_of_call()
    asks.acquire(name, time.time() + after)
    try:
        yield
    finally:
        asks.release(name)


def _place_of_call() -> str:
    """File and line of whoever wrote ``with expires(…)``."""
    frame = sys._getframe(3)  # above this function, the generator and contextlib
    return f"{frame.f_code.co_filename}#{frame.f_lineno}"

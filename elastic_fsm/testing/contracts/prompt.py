"""Whoever is asked must not wait: a call that does is cut short, so that it fails and hangs not."""

from __future__ import annotations

import functools
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = ["Prompt"]


class Prompt:
    """Passes everything on to ``part``; its ``methods`` must return within ``limit`` seconds.

    One that does not raises ``AssertionError``. It is cut short by SIGALRM, so that it can be
    done in the main thread only.
    """

    def __init__(self, part: Any, methods: Collection[str], limit: float) -> None:
        self._part = part
        self._methods = methods
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return self._timed(name, found) if name in self._methods else found

    def _timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        late = f"{name} must not block, and had not returned after {self._limit:g} s"

        @functools.wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            with _at_most(self._limit, late):
                return method(*args, **named)

        return call


@contextmanager
def _at_most(seconds: float, late: str) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    rang = []

    def ring(number: int, frame: object) -> None:
        rang.append(number)
        raise AssertionError(late)

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    # A limit of somebody else's, as for the whole check, goes on afterwards.
    theirs, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if theirs:
            left = theirs - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), interval)
    assert not rang, late  # also where it was caught

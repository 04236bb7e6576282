"""Whoever is asked must not wait: a call that does is cut short, so that it fails and hangs not."""

from __future__ import annotations

import functools
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["MustNotBlock"]


class MustNotBlock:
    """Passes everything on to ``part``; a method must return within its limit, in seconds.

    One that does not raises ``AssertionError``. It is cut short by SIGALRM, so that it can be
    done in the main thread only.
    """

    def __init__(self, part: Any, limits: Mapping[str, float]) -> None:
        self._part = part
        self._limits = limits

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        limit = self._limits.get(name)
        return found if limit is None else _timed(name, found, limit)


def _timed(name: str, method: Callable[..., Any], limit: float) -> Callable[..., Any]:
    late = f"{name} must not block, and had not returned after {limit:g} s"

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        with _at_most(limit, late):
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

    # A limit of somebody else's, as for the whole check, goes on afterwards.
    began = time.monotonic()
    theirs, interval = signal.getitimer(signal.ITIMER_REAL)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also where it rang between the two
        signal.signal(signal.SIGALRM, before)
        if theirs:
            left = theirs - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), interval)
    assert not rang, late  # also where it was caught

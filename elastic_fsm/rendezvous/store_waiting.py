"""Waiting for keys of a store that is torch's, or like it.

Such a store has a blocking ``wait`` of its own, which is not used. While it waits nobody else in
the process gets through to the server, so that torch's handler cannot send its heartbeat and the
other nodes take this one for dead; nor does a signal or anything else end it. Looking again and
again does not have these faults.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Abandoned", "store_timeout", "wait_for_keys"]

_FIRST_LOOK = 0.005
_DEFAULT_TIMEOUT = 300.0
_MOST_NAMED = 8


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


def store_timeout(store: Any) -> float:
    """How long reading from the store may wait, in seconds, as whoever made it has said."""
    timeout = getattr(store, "timeout", None)
    return timeout.total_seconds() if timeout is not None else _DEFAULT_TIMEOUT


def wait_for_keys(
    store: Any,
    keys: Sequence[str],
    *,
    timeout: float | None = None,
    interval: float = 0.1,
    stop: threading.Event | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Wait until all the keys are there; look at least every ``interval`` seconds.

    ``meanwhile`` is called after each look.

    Raises ``TimeoutError`` after ``timeout`` seconds (None: the store's own), and
    :class:`Abandoned` once ``stop`` is set. A signal handler may end it with an exception.
    """
    seconds = store_timeout(store) if timeout is None else timeout
    limit = time.monotonic() + seconds
    stopped = threading.Event() if stop is None else stop
    pause = _FIRST_LOOK
    while not store.check(list(keys)):
        if time.monotonic() >= limit:
            raise TimeoutError(f"nobody wrote {_missing(store, keys)} within {seconds:g} s")
        meanwhile()
        if stopped.wait(min(pause, interval)):
            raise Abandoned
        pause *= 2


def _missing(store: Any, keys: Sequence[str]) -> str:
    missing = [key for key in keys if not store.check([key])]
    more = ", …" if len(missing) > _MOST_NAMED else ""
    return ", ".join(missing[:_MOST_NAMED]) + more

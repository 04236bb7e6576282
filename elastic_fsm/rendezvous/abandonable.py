"""Calls that a signal may end although they wait in C.

Python runs signal handlers in the main thread only, and only between two of its own instructions.
Whoever waits there inside a C library is deaf until that returns. So the call goes to another
thread, and the main one waits for that in a way that handlers can interrupt.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["call_abandonable"]

_LONGEST_WAIT = 0.2

P = ParamSpec("P")
T = TypeVar("T")


def call_abandonable(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function`` in a thread and wait for it; what it returns or raises comes out here.

    When a signal handler raises meanwhile, that comes out at once. The call goes on in its
    thread then, which does not keep the process from ending, and nobody hears how it ended.
    """
    call: _Call[T] = _Call(function, args, kwargs)
    name = f"call of {getattr(function, '__qualname__', function)}"
    threading.Thread(target=call.run, name=name, daemon=True).start()
    return call.outcome()


class _Call(Generic[T]):
    def __init__(self, function: Callable[..., T], args: Any, kwargs: Any) -> None:
        self._call = functools.partial(function, *args, **kwargs)
        # A bare lock: a handler that raises within an Event's own code could leave that broken.
        self._running = threading.Lock()
        self._running.acquire()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:  # whatever it is, it belongs to the caller
            self._error = error
        finally:
            self._running.release()

    def outcome(self) -> T:
        # A signal that comes just before the wait does not end it, so nothing is waited for long.
        while not self._running.acquire(timeout=_LONGEST_WAIT):
            pass
        error, self._error = self._error, None  # else error and traceback refer to each other
        if error is not None:
            raise error
        return self._result[0]

"""Stop signals that end a blocking call.

While the engine serves its loop, a signal is an event like the others. But a method of a
subclass may block, in a rendezvous or in a stop, and nothing but an exception gets it out of
there: :class:`SignalException`, raised by the signal's handler.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from elastic_fsm.failures import SignalException

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from elastic_fsm.sources.signals import Signals

__all__ = ["Interrupts", "told_to_stop"]


def told_to_stop(number: signal.Signals) -> SignalException:
    """What leaves ``run()`` after a stop signal."""
    return SignalException(f"the agent was told to stop by {number.name}", number)


class Interrupts:
    """Handlers of the named signals; what was set before comes back at the end of the context.

    They raise wherever the main thread is. While the engine serves (:meth:`engine_serving`) they
    do so only within :meth:`raising`, and else only remember that there was a signal. Handlers
    belong to the main thread; in another one nothing is set. An ignored signal stays ignored.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._numbers = [signal.Signals[name] for name in names]
        self._before: dict[int, Any] = {}
        self._inner: dict[int, Any] = {}
        self._pending: set[str] = set()
        self._engine_serves = False
        self._source: Signals | None = None
        self._within = False

    def __enter__(self) -> Self:
        # Noted before ours are set: the first of them may raise before the last one is.
        self._before = self._of_others()
        try:
            self._set_handlers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @property
    def engine_serves(self) -> bool:
        """Whether a machine runs; else it is a loop of a subclass's own, or nothing."""
        return self._engine_serves

    @contextmanager
    def engine_serving(self, source: Signals) -> Iterator[None]:
        """The engine hears of signals by itself, from ``source``, and takes them up when it can."""
        self._engine_serves = True
        self._source = source
        self._set_handlers()
        try:
            yield
        finally:
            self._engine_serves = False

    @contextmanager
    def raising(self) -> Iterator[None]:
        """A stop signal raises here; so does one that came before and was not taken up yet.

        Handlers that are set within (by processes that a method starts) are heeded within: they
        know better what must not be left half done.
        """
        self._within = True
        try:
            for name in self._pending:
                raise told_to_stop(signal.Signals[name])
            yield
        finally:
            self._within = False
            self._inner |= self._set_handlers()

    def is_real(self, error: Exception) -> bool:
        """Whether a signal caused this :class:`SignalException`, so that the engine hears of it.

        A handler of somebody else's may have raised it, and a method may do so without any.
        """
        number = getattr(error, "sigval", None)
        waiting = self._source.waiting() if self._source else ()
        return number in waiting or number in [signal.Signals[name] for name in self._pending]

    def taken_up(self, name: str) -> None:
        """The signal has become an event that is being handled."""
        self._pending.discard(name)

    def _set_handlers(self) -> dict[int, Any]:
        """Set ours; returns those of others that they replaced."""
        replaced = self._of_others()
        for number in replaced:
            signal.signal(number, self._handle)
        return replaced

    def _of_others(self) -> dict[int, Any]:
        """The handlers that are not ours, and may be replaced."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        handlers = {number: signal.getsignal(number) for number in self._numbers}
        left_alone = (signal.SIG_IGN, self._handle)
        return {n: handler for n, handler in handlers.items() if handler not in left_alone}

    def _handle(self, number: int, frame: Any) -> None:
        if self._engine_serves:
            self._pending.add(signal.Signals(number).name)
        if self._within or not self._engine_serves:
            inner = self._inner.get(number)
            if callable(inner):
                inner(number, frame)
            else:
                self._within = False  # once only, should it come between the call and its end
                raise told_to_stop(signal.Signals(number))

"""Stop signals as exceptions that never leave the launcher's work half done."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from elastic_fsm.config.signals import NOT_HEARD, refusal, signal_name
from elastic_fsm.failures import SignalException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["StopSignals", "read_stop_signals"]

_VARIABLE = "TORCHELASTIC_SIGNALS_TO_HANDLE"
_DEFAULT = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


def read_stop_signals(text: str, named: str) -> list[signal.Signals]:
    """Signals by their names, with commas between them.

    Raises ``ValueError`` for one that nobody could be stopped by; ``named`` is what holds them.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if problem := refusal(name, "", NOT_HEARD):
            raise ValueError(f"{named}: {problem.what}; {problem.fix}")
    return [signal.Signals[signal_name(name)] for name in names]


class StopSignals:
    """Raises ``SignalException`` wherever the main thread is, from :meth:`take` to
    :meth:`give_back`; but within :meth:`in_one_piece` it asks ``interrupt`` to see to that.

    Which signals is said by ``TORCHELASTIC_SIGNALS_TO_HANDLE``; those that are ignored stay so.
    In another thread than the main one nothing is taken. Raises ``ValueError`` when the variable
    names what is no such signal.
    """

    def __init__(self, interrupt: Callable[[SignalException], None]) -> None:
        self._interrupt = interrupt
        self._numbers = read_stop_signals(os.environ.get(_VARIABLE) or _DEFAULT, _VARIABLE)
        self._before: dict[int, Any] = {}
        self._is_held = False
        self._pending: SignalException | None = None

    def take(self) -> None:
        """Set the handlers."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self._numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)

    def give_back(self) -> None:
        """Set what was there before, unless somebody has set something else meanwhile."""
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    @contextmanager
    def in_one_piece(self) -> Iterator[None]:
        """A signal that comes meanwhile is raised at the end, or by whom ``interrupt`` asks."""
        self._is_held = True
        try:
            yield
        except SignalException:  # this is it
            self._pending = None
            raise
        finally:
            self._is_held = False
        pending, self._pending = self._pending, None
        if pending is not None:
            raise pending

    def _handle(self, number: int, _: object) -> None:
        name = signal.Signals(number).name
        error = SignalException(f"process {os.getpid()} got {name}", signal.Signals(number))
        if not self._is_held:
            raise error
        self._pending = error
        self._interrupt(error)

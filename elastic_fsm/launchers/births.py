"""The start of an attempt's workers, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.launchers.starters import NotReady

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.launchers.starters import Starter
    from elastic_fsm.loop import Loop

__all__ = ["Births"]


class Births:
    """Has workers started as fast as the starter can, and tells when all are.

    ``start`` starts one and raises what its starter raises; ``on_failed`` is told of an
    ``OSError``, after which no more are started.
    """

    def __init__(
        self,
        loop: Loop,
        starter: Starter,
        *,
        start: Callable[[WorkerPlan], None],
        on_failed: Callable[[WorkerPlan, OSError], None],
        on_done: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._starter = starter
        self._start = start
        self._on_failed = on_failed
        self._on_done = on_done
        self._unborn: list[WorkerPlan] | None = None

    def begin(self, workers: Sequence[WorkerPlan]) -> None:
        """Start these, now or when the starter is ready."""
        self._unborn = list(workers)
        self._starter.when_ready(self._go_on)

    def cancel(self) -> None:
        """Start no more of them, and tell nothing."""
        self._unborn = None

    def _go_on(self) -> None:
        while self._unborn:
            try:
                self._start(self._unborn[0])
            except NotReady:
                self._starter.when_ready(self._go_on)
                return
            except OSError as error:
                failed, self._unborn = self._unborn[0], None
                self._on_failed(failed, error)
                return
            del self._unborn[0]
            if self._unborn and self._starter.takes_turns:
                self._loop.call_later(0.0, self._go_on)
                return
        if self._unborn is not None:
            self._unborn = None
            self._on_done()

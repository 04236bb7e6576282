"""Workers that the agent itself ended for something they did, and why."""

from __future__ import annotations

import os
import signal as signals
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.group import RunResult, Worker

__all__ = ["EndedWorkers"]


class EndedWorkers:
    """Of one attempt, for agents that learn of a worker's end by looking."""

    def __init__(self) -> None:
        self._ended: dict[int, tuple[int, str]] = {}

    def clear(self) -> None:
        """A new attempt begins."""
        self._ended.clear()

    def end(self, worker: Worker, signal: str, why: str) -> None:
        """Send a worker a signal, and its group if it leads one; see :meth:`explain`."""
        number = signals.Signals[signal]
        self._ended[worker.global_rank] = (-number, why)
        with suppress(ProcessLookupError):
            leads = os.getpgid(worker.id) == worker.id
            (os.killpg if leads else os.kill)(worker.id, number)

    def explain(self, result: RunResult) -> None:
        """Give the failures of workers that were ended here their reason."""
        for rank, failure in result.failures.items():
            exit_code, why = self._ended.get(rank, (0, ""))
            if why and failure.exitcode == exit_code:
                failure.reason = failure.message = why

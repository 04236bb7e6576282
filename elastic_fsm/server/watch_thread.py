"""Timers, and the look at sleepers, beside a loop that is a subclass's own.

The machine has them as sources of its loop. Who overrides ``_invoke_run`` has no such loop, so
they get one in a thread, from the start of the workers to their end; an expired timer ends its
worker there, and the subclass hears of that when it looks at the workers.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from elastic_fsm.actions import end_expired_worker
from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.loop import Loop
from elastic_fsm.problems import error_text
from elastic_fsm.server.probes import record_expiry
from elastic_fsm.watchdogs import timer_file, watchdogs

if TYPE_CHECKING:
    from elastic_fsm.server.local import LocalElasticAgent

__all__ = ["WatchThread"]

log = logging.getLogger("elastic_fsm")

_STOP = Event("watch_stopped")


class WatchThread:
    """Looks after the workers of ``owner`` from :meth:`start` to :meth:`stop`.

    ``path`` is the pipe for requests of timers; empty when nobody asked for them.
    """

    def __init__(self, owner: LocalElasticAgent) -> None:
        self.path = timer_file()
        self._owner = owner
        self._started: Future[Loop] = Future()
        self._thread = threading.Thread(target=self._serve, name="watchdogs", daemon=True)

    @property
    def is_asked_for(self) -> bool:
        """Whether there is anything to look after."""
        return bool(self.path or self._owner._uninterruptible_state_timeout)

    def start(self) -> None:
        """Begin. Raises what keeps it from that: ``OSError`` where the pipe cannot be made."""
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """Take all timers back and remove the pipe; calling it again does nothing, nor does it
        where nothing was begun."""
        if self._started.cancel():
            return
        with suppress(Exception):  # ``start`` has raised it
            self._started.result().post(_STOP)
        self._thread.join()

    def end_worker(self, local_rank: int, signal: str, why: str) -> None:
        """What the action of the machines asks of an agent."""
        worker = self._owner._worker_group.workers[local_rank]
        self._owner._ended_workers.end(worker, signal, why)

    def _serve(self) -> None:
        if not self._started.set_running_or_notify_cancel():
            return
        try:
            with ExitStack() as opened:
                loop = self._begin(opened)
                self._started.set_result(loop)
                for event in iter(loop.next_event, _STOP):
                    self._take(event, loop.clock.wall())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # for whoever waits in ``start``

    def _begin(self, opened: ExitStack) -> Loop:
        loop = Loop(SystemClock())
        opened.callback(loop.close)
        group, limit = self._owner._worker_group, self._owner._uninterruptible_state_timeout
        for dog in watchdogs(loop, group, log.warning, file=self.path, limit=limit):
            opened.callback(dog.close)
            dog.start()
        return loop

    def _take(self, event: Event, time: float) -> None:
        try:
            end_expired_worker(self, event)
            record_expiry(self._owner, event.data, time)
        except Exception as error:  # the others must be looked after all the same
            log.warning("a timer expired to no effect: %s", error_text(error))

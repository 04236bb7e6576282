"""Timers, and the look at sleepers, beside a loop that is a subclass's own.

The machine has them as sources of its loop. Who overrides ``_invoke_run`` has no such loop, so
they get one in a thread, from the start of the workers to their end; an expired timer ends its
worker there, and the subclass hears of that when it looks at the workers.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

from elastic_fsm.actions import end_expired_worker
from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.loop import Loop
from elastic_fsm.problems import error_text
from elastic_fsm.server.probes import record_expiry
from elastic_fsm.watchdogs import timer_file, watchdogs

if TYPE_CHECKING:
    from elastic_fsm.agent import Agent
    from elastic_fsm.server.local import LocalElasticAgent
    from elastic_fsm.sources.base import Source

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
        """Begin. Raises ``OSError`` where the pipe cannot be made."""
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """Take all timers back and remove the pipe; calling it again does nothing."""
        self._started.result().post(_STOP)
        self._thread.join()

    def end_worker(self, local_rank: int, signal: str, why: str) -> None:
        """What the action of the machines asks of an agent."""
        worker = self._owner._worker_group.workers[local_rank]
        self._owner._endings.end(worker, signal, why)

    def _serve(self) -> None:
        loop = Loop(SystemClock())
        dogs = watchdogs(
            loop,
            self._owner._worker_group,
            log.warning,
            file=self.path,
            limit=self._owner._uninterruptible_state_timeout,
        )
        try:
            if self._can_start(dogs):
                self._started.set_result(loop)
                for event in iter(loop.next_event, _STOP):
                    self._take(event, loop.clock.wall())
        finally:
            for dog in dogs:
                dog.close()
            loop.close()

    def _can_start(self, dogs: list[Source]) -> bool:
        """Whether they could be started; if not, whoever waits for that gets the reason."""
        try:
            for dog in dogs:
                dog.start()
        except OSError as error:
            self._started.set_exception(error)
            return False
        return True

    def _take(self, event: Event, time: float) -> None:
        try:
            end_expired_worker(cast("Agent", self), event)  # it asks for end_worker alone
            record_expiry(self._owner, event.data, time)
        except Exception as error:  # the others must be looked after all the same
            log.warning("a timer expired to no effect: %s", error_text(error))

"""The port over a handler whose calls block: torch's own, or any of its kind.

One thread makes all calls to the handler and to the round's store, one after the other, for
neither may be used by two at a time. A newer question makes it drop the older one; where that
waits inside the handler, which nobody can interrupt, the newer one begins when it comes back. The
thread does not keep the process from ending.

While a group runs the thread looks for nodes that wait, and for the end of the round, and gives
signs of life. A handler offers no way to be told.
"""

from __future__ import annotations

import functools
import logging
import math
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.rendezvous.barrier_over_store import pass_exit_barrier
from elastic_fsm.rendezvous.base import Rendezvous
from elastic_fsm.rendezvous.errors import RendezvousGracefulExitError, is_kind
from elastic_fsm.rendezvous.heartbeat import Pace, pace_of
from elastic_fsm.rendezvous.lost_store import as_ours, explain_with
from elastic_fsm.rendezvous.ports import free_port
from elastic_fsm.rendezvous.round_over_store import RoundOverStore
from elastic_fsm.rendezvous.store_waiting import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.loop import Loop
    from elastic_fsm.rendezvous.errors import RendezvousError
    from elastic_fsm.rendezvous.handler import RendezvousInfo
    from elastic_fsm.world import Node, World

__all__ = ["HandlerRendezvous"]

_LOGGER = logging.getLogger(__name__)
_PATIENCE = 2.0


class HandlerRendezvous(Rendezvous):
    """Joins, watches and leaves through ``handler``; looks every ``interval`` seconds.

    ``pace`` is that of the heartbeats, by default what the handler's settings say.
    The workers' meeting place is new in each round. ``store`` is that of the current round, None
    before the first; ``error`` is what became of the last joining, None where that went well.
    ``tell`` is told what is not worth an event. The handler is not shut down: that ends the run
    for all nodes, and is for whoever made it to decide.
    """

    def __init__(
        self,
        loop: Loop,
        handler: Any,
        *,
        interval: float = 0.1,
        pace: Pace | None = None,
        find_port: Callable[[str], int] = free_port,
        tell: Callable[[str], object] = _LOGGER.warning,
    ) -> None:
        self.store: Any = None
        self.error: RendezvousError | None = None
        self._loop = loop
        self._handler = handler
        self._interval = interval
        self._given_pace = pace
        self._find_port = find_port
        self._tell = tell
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_handler = False
        self._info: RendezvousInfo | None = None
        self._round: RoundOverStore | None = None
        self._next_number = 0

    # -- the port, called in the loop's thread -------------------------------------------------

    def join(self, node: Node, attempt: int) -> None:
        """See :meth:`Rendezvous.join`."""
        self._ask(self._join, node, attempt)

    def barrier(self, attempt: int) -> None:
        """See :meth:`Rendezvous.barrier`."""
        self._ask(self._pass_barrier, attempt)

    def leave(self) -> None:
        """See :meth:`Rendezvous.leave`. The others are told, and form their group anew."""
        self._ask(self._leave)

    def close(self) -> None:
        """See :meth:`Rendezvous.close`. A thread inside the handler is left to itself."""
        self._stop.set()
        self._requests.put(None)
        if self._thread is not None and not self._in_handler:
            self._thread.join(_PATIENCE)

    def _ask(self, work: Callable[..., None], *arguments: Any) -> None:
        """Hand over the next question; what the thread is at is not wanted any more."""
        self._stop.set()
        self._stop = threading.Event()
        self._requests.put(functools.partial(work, *arguments, self._stop))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="rendezvous", daemon=True)
            self._thread.start()

    # -- in the thread -------------------------------------------------------------------------

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            request()

    def _join(self, node: Node, attempt: int, stop: threading.Event) -> None:
        if stop.is_set():
            return
        self._end_round("joins the next round")
        try:
            world = self._agree(node, stop)
        except Abandoned:
            return
        except Exception as error:
            self._post(self._answer_to(error), attempt)
            return
        self.error = None
        self._post(Event("rendezvous_completed", {"world": world.to_dict()}), attempt)
        self._watch(attempt, stop)

    def _answer_to(self, error: Exception) -> Event:
        if is_kind(error, RendezvousGracefulExitError):
            return Event("run_finished")
        reason = self._explain(error)
        self.error = as_ours(error, reason)
        return Event("rendezvous_failed", {"reason": reason})

    def _explain(self, error: Exception) -> str:
        return explain_with(self.store, error)

    def _agree(self, node: Node, stop: threading.Event) -> World:
        self._info = info = self._next_rendezvous()
        # First of all, so that it is ended if nothing comes.
        self._round = RoundOverStore(info, node, self._pace)
        if stop.is_set():
            raise Abandoned
        world = self._round.exchange(self._next_number, find_port=self._find_port, stop=stop)
        self.store = info.store
        self._next_number = world.round + 1
        return world

    @property
    def _pace(self) -> Pace:
        """A handler that is made when it is first needed has its settings from then on."""
        return self._given_pace or pace_of(self._handler)

    @property
    def _look_every(self) -> float:
        """Seconds; the heart beats with the looks."""
        return min(self._interval, self._pace.interval)

    def _next_rendezvous(self) -> RendezvousInfo:
        self._in_handler = True
        try:
            info: RendezvousInfo = self._handler.next_rendezvous()
            return info
        finally:
            self._in_handler = False

    def _watch(self, attempt: int, stop: threading.Event) -> None:
        """Tell each piece of news once; so for trouble, until it is over."""
        told, in_trouble = "", False
        while not stop.wait(self._look_every):
            try:
                news = self._news()
            except Exception as error:
                if not in_trouble:
                    self._tell(f"the rendezvous cannot be watched: {self._explain(error)}")
                in_trouble = True
                continue
            if news and news != told:
                self._post(Event("membership_changed", {"reason": news}), attempt)
            told, in_trouble = news, False

    def _news(self) -> str:
        """Why the group should form anew; empty while it should not."""
        assert self._round is not None
        self._beat()
        waiting = self._handler.num_nodes_waiting()
        if waiting > 0:
            return f"nodes that wait to join: {waiting}"
        return self._round.why_ended()

    def _pass_barrier(self, attempt: int, stop: threading.Event) -> None:
        """Whatever goes wrong here does not turn success into failure."""
        data = {}
        try:
            if self._info is not None:
                pass_exit_barrier(
                    self._info.store,
                    self._info.world_size,
                    math.inf,  # how long is for the machine to say
                    interval=self._look_every,
                    stop=stop,
                    meanwhile=self._beat,
                )
        except Abandoned:
            self._rest()
            return
        except Exception as error:
            data = {"reason": f"the other nodes cannot be asked: {self._explain(error)}"}
        self._post(Event("barrier_passed", data), attempt)

    def _beat(self) -> None:
        if self._round is not None:
            self._round.beat()

    def _rest(self) -> None:
        """This node is done, and waits for the others no longer: they need not miss it."""
        with suppress(Exception):  # a store that is gone has nobody left to tell
            if self._round is not None:
                self._round.rest()

    def _leave(self, _: threading.Event) -> None:
        self._end_round("left")

    def _end_round(self, what: str) -> None:
        ended, self._round = self._round, None
        try:
            if ended is not None:
                ended.end(what)
        except Exception as error:
            self._tell(f"the other nodes cannot be told: {self._explain(error)}")

    def _post(self, event: Event, attempt: int) -> None:
        self._loop.post(Event(event.name, event.data, attempt=attempt))

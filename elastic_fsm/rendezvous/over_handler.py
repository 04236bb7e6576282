"""The port over a handler whose calls block: torch's own, or any of its kind.

One thread makes all calls to the handler and to the round's store, one after the other, for
neither may be used by two at a time. A newer question makes it drop the older one; where that
waits inside the handler, which nobody can interrupt, the newer one begins when it comes back. The
thread does not keep the process from ending.

While a group runs the thread looks for nodes that wait, and for the end of the round. A handler
offers no way to be told.
"""

from __future__ import annotations

import functools
import logging
import math
import queue
import threading
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.rendezvous.barrier_over_store import pass_exit_barrier
from elastic_fsm.rendezvous.base import Rendezvous
from elastic_fsm.rendezvous.errors import (
    RendezvousGracefulExitError,
    explain,
    is_kind,
)
from elastic_fsm.rendezvous.ports import free_port
from elastic_fsm.rendezvous.round_over_store import RoundOverStore
from elastic_fsm.rendezvous.store_waiting import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.loop import Loop
    from elastic_fsm.rendezvous.handler import RendezvousInfo
    from elastic_fsm.world import Node, World

__all__ = ["HandlerRendezvous"]

_LOGGER = logging.getLogger(__name__)
_PATIENCE = 2.0


class HandlerRendezvous(Rendezvous):
    """Joins, watches and leaves through ``handler``; looks every ``interval`` seconds.

    The workers' meeting place is new in each round. ``store`` is that of the current round, None
    before the first. ``tell`` is told what is not worth an event. The handler is not shut down:
    that ends the run for all nodes, and is for whoever made it to decide.
    """

    def __init__(
        self,
        loop: Loop,
        handler: Any,
        *,
        interval: float = 0.1,
        find_port: Callable[[str], int] = free_port,
        tell: Callable[[str], object] = _LOGGER.warning,
    ) -> None:
        self.store: Any = None
        self._loop = loop
        self._handler = handler
        self._interval = interval
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
        self._end_round(f"{node.node_id} joins the next round")
        try:
            world = self._agree(node, stop)
        except Abandoned:
            return
        except Exception as error:
            self._post(_answer_to(error), attempt)
            return
        self._post(Event("rendezvous_completed", {"world": world.to_dict()}), attempt)
        self._watch(attempt, stop)

    def _agree(self, node: Node, stop: threading.Event) -> World:
        self._info = info = self._next_rendezvous()
        self._round = RoundOverStore(info)  # first of all, so that it is ended if nothing comes
        if stop.is_set():
            raise Abandoned
        world = self._round.exchange(node, self._next_number, find_port=self._find_port, stop=stop)
        self.store = info.store
        self._next_number = world.round + 1
        return world

    def _next_rendezvous(self) -> RendezvousInfo:
        self._in_handler = True
        try:
            info: RendezvousInfo = self._handler.next_rendezvous()
            return info
        finally:
            self._in_handler = False

    def _watch(self, attempt: int, stop: threading.Event) -> None:
        """Tell each piece of news once; so for trouble, until it is over."""
        told = trouble = ""
        while not stop.wait(self._interval):
            try:
                news = self._news()
            except Exception as error:
                if not trouble:
                    self._tell(f"the rendezvous cannot be watched: {explain(error)}")
                trouble = explain(error)
                continue
            if news and news != told:
                self._post(Event("membership_changed", {"reason": news}), attempt)
            told, trouble = news, ""

    def _news(self) -> str:
        """Why the group should form anew; empty while it should not."""
        assert self._round is not None
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
                    interval=self._interval,
                    stop=stop,
                )
        except Abandoned:
            return
        except Exception as error:
            data = {"reason": f"the other nodes cannot be asked: {explain(error)}"}
        self._post(Event("barrier_passed", data), attempt)

    def _leave(self, _: threading.Event) -> None:
        self._end_round("a node left")

    def _end_round(self, reason: str) -> None:
        ended, self._round = self._round, None
        try:
            if ended is not None:
                ended.end(reason)
        except Exception as error:
            self._tell(f"the other nodes cannot be told: {explain(error)}")

    def _post(self, event: Event, attempt: int) -> None:
        self._loop.post(Event(event.name, event.data, attempt=attempt))


def _answer_to(error: Exception) -> Event:
    if is_kind(error, RendezvousGracefulExitError):
        return Event("run_finished")
    return Event("rendezvous_failed", {"reason": explain(error)})

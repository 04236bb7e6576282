"""What a coarse agent has to do with the other nodes of its round, in the thread that it has."""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import is_told_to_stop
from elastic_fsm.rendezvous.errors import explain
from elastic_fsm.world import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from elastic_fsm.group import WorkerSpec
    from elastic_fsm.rendezvous.heartbeat import Pace
    from elastic_fsm.rendezvous.round_over_store import RoundOverStore

__all__ = ["Membership"]

log = logging.getLogger(__name__)


class Membership:
    """This node's part in the round, from its agreement to its end; in none while it is alone.

    It beats where it is asked to (:meth:`beat`), and rests before the agent calls a method that
    may block for long.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._round: RoundOverStore | None = None
        self._next_number = 0

    def agree_on_meeting_place(
        self, info: Any, spec: WorkerSpec, handler: Any, grace: float
    ) -> tuple[str, int]:
        """Where the workers of this round meet: at a port that is new, on node 0.

        What a handler of torch's says is the agents' own store, full of the last round's keys,
        and says it in the first round only. ``grace``: seconds for which stopping the workers may
        keep this node from beating.
        """
        from elastic_fsm.rendezvous.master_over_store import own_address
        from elastic_fsm.rendezvous.ports import free_port
        from elastic_fsm.rendezvous.round_over_store import RoundOverStore

        if info.world_size == 1:
            return own_address(info) or spec.local_addr or "127.0.0.1", free_port("")
        address = spec.local_addr or socket.getfqdn()
        node = Node(f"{address}:{os.getpid()}", spec.role, spec.local_world_size, address)
        pace = _pace(handler, spec.monitor_interval, grace)
        self._round = RoundOverStore(info, node, pace, now=self._now)
        world = self._round.exchange(self._next_number, find_port=free_port, at_rest=True)
        self._next_number = world.round + 1
        return world.master_addr, world.master_port

    def beat(self) -> None:
        """To be called often: a sign of life, when it is time for one, and a look for another's.

        Raises what the store raises.
        """
        if self._round is not None:
            self._round.beat()

    def rest(self) -> None:
        """Until the next beat nobody is to miss this node."""
        if self._round is not None:
            with _only_logged():
                self._round.rest()

    def why_ended(self) -> str:
        """Why some node takes no further part; empty while all do. Raises what the store raises."""
        return "" if self._round is None else self._round.why_ended()

    def end(self, what: str) -> None:
        """This node takes no further part. The others are told ``what`` it does (``left``), and
        form their group anew."""
        ended, self._round = self._round, None
        if ended is not None:
            with _only_logged():
                ended.end(what)


@contextmanager
def _only_logged() -> Iterator[None]:
    """Whoever goes its own way has no more use for a store in trouble."""
    try:
        yield
    except Exception as error:
        if is_told_to_stop(error):
            raise
        log.warning("the other nodes cannot be told: %s", explain(error))


def _pace(handler: Any, monitor_interval: float, grace: float) -> Pace:
    """The handler's, as far as an agent can keep it that beats when it looks at its workers."""
    from elastic_fsm.rendezvous.heartbeat import Pace, pace_of

    pace = pace_of(handler)
    return Pace(max(pace.interval, monitor_interval), pace.attempts, grace)

"""What a coarse agent has to do with the other nodes of its round, in the thread that it has."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from elastic_fsm.rendezvous.errors import explain
from elastic_fsm.server.interrupts import is_told_to_stop
from elastic_fsm.world import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def __init__(self) -> None:
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
        self._round = RoundOverStore(info, _pace(handler, spec.monitor_interval, grace))
        world = self._round.exchange(node, self._next_number, find_port=free_port, at_rest=True)
        self._next_number = world.round + 1
        return world.master_addr, world.master_port

    def beat(self) -> None:
        """To be called often: a sign of life, when it is time for one, and a look for another's."""
        if self._round is not None:
            with _only_logged():
                self._round.beat()

    def rest(self) -> None:
        """Until the next beat nobody is to miss this node."""
        if self._round is not None:
            with _only_logged():
                self._round.rest()

    def why_ended(self) -> str:
        """Why some node takes no further part; empty while all do. Raises what the store raises."""
        return "" if self._round is None else self._round.why_ended()

    def end(self, reason: str) -> None:
        """This node takes no further part; the others are told, and form their group anew."""
        ended, self._round = self._round, None
        if ended is not None:
            with _only_logged():
                ended.end(reason)


@contextmanager
def _only_logged() -> Iterator[None]:
    """A store in trouble is no reason to end workers that run well."""
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

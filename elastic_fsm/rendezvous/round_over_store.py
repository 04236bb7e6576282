"""A round of nodes that share a store, from the exchange of what they are to its end.

torch's handlers say how many nodes take part and which of them this one is, no more. So each
writes what it is, node 0 makes the world of it, and all read that one record; ranks and the
workers' meeting place therefore always fit together. Rounds have numbers, since the store may be
the same in all of them (torch's static handler): the number of worlds that were published before.

A round ends when a node leaves it, or joins the next one because its workers failed. It says so
in the store, and the others need not guess it from failures of their own. For one that cannot say
it, another does, which has missed its heartbeat.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from elastic_fsm.rendezvous.heartbeat import Heartbeat, Pace
from elastic_fsm.rendezvous.master_over_store import let_newcomers_in, own_address
from elastic_fsm.rendezvous.store_waiting import wait_for_keys
from elastic_fsm.world import Node, World

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from elastic_fsm.rendezvous.handler import RendezvousInfo

__all__ = ["RoundOverStore"]

_ROOT = "elastic_fsm/rounds"
_PUBLISHED = f"{_ROOT}/published"


class RoundOverStore:
    """The next round of the nodes in ``info.store``, whose hearts beat at ``pace``.

    ``node`` is this one; ``now`` tells the time in seconds, from any moment on.
    """

    def __init__(
        self,
        info: RendezvousInfo,
        node: Node,
        pace: Pace,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = info.store
        self._info = info
        self._node = node
        self._number: int = self.store.add(_PUBLISHED, 0)
        self._nodes: tuple[Node, ...] = ()
        self._heartbeat = Heartbeat(
            info.store,
            lambda rank: self._key(f"beat/{rank}"),
            info.rank,
            info.world_size,
            pace,
            now=now,
        )

    def exchange(
        self,
        first_round: int,
        *,
        find_port: Callable[[str], int],
        at_rest: bool = False,
        stop: threading.Event | None = None,
    ) -> World:
        """Tell the others what this node is; the world that comes of it.

        The world's round is at least ``first_round``, the first number that is new to this node.
        Who is ``at_rest`` promises no heartbeat until the first :meth:`beat`.
        Raises ``TimeoutError`` when a node does not tell its part within the store's timeout,
        and ``Abandoned`` once ``stop`` is set.
        """
        self._end(self._number - 1, f"{self._node.node_id} is back")
        if not self._is_alone:
            self._heartbeat.begin(at_rest=at_rest)  # before the others can look for it
        share = {"node": asdict(self._node), "first_round": first_round}
        self.store.set(self._key(f"node/{self._info.rank}"), json.dumps(share))
        if self._info.rank == 0:
            port = find_port("")
            self._publish(own_address(self._info) or self._node.address, port, stop)
        wait_for_keys(self.store, [self._key("world")], stop=stop)
        record = json.loads(self.store.get(self._key("world")))
        world = World.from_dict({**record, "node_rank": self._info.rank})
        self._nodes = world.nodes
        return world

    @property
    def _is_alone(self) -> bool:
        return self._info.world_size == 1

    def _publish(self, address: str, port: int, stop: threading.Event | None) -> None:
        let_newcomers_in(self.store, address, port)
        keys = [self._key(f"node/{rank}") for rank in range(self._info.world_size)]
        wait_for_keys(self.store, keys, stop=stop)
        shares = [json.loads(value) for value in self.store.multi_get(keys)]
        record = {
            "round": max(share["first_round"] for share in shares),
            "nodes": [share["node"] for share in shares],
            "master_addr": address,
            "master_port": port,
        }
        self.store.set(self._key("world"), json.dumps(record))
        self.store.add(_PUBLISHED, 1)

    def beat(self) -> None:
        """To be called often: a sign of life, when it is time for one, and a look for another's.

        The round ends where there is none. Raises what the store raises.
        """
        silence = None if self._is_alone else self._heartbeat.beat()
        if silence is not None:
            name, seconds = self._nodes[silence.rank].node_id, round(silence.seconds, 1)
            why = f"node {silence.rank} ({name}) has sent no sign of life for {seconds:g} s"
            self._end(self._number, why)

    def rest(self) -> None:
        """This node is not to be missed until its next :meth:`beat`."""
        if not self._is_alone:
            self._heartbeat.rest()

    def end(self, what: str) -> None:
        """This node takes no further part in the round: the others are told ``what`` it does."""
        self._end(self._number, f"{self._node.node_id} {what}")

    def why_ended(self) -> str:
        """Why some node takes no further part; empty while all do."""
        key = self._key("ended")
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def _end(self, number: int, reason: str) -> None:
        """The first reason stays: it is the one that the others are told."""
        key = f"{_ROOT}/{number}/ended"
        if number >= 0 and not self.store.check([key]):
            self.store.set(key, reason)

    def _key(self, name: str) -> str:
        return f"{_ROOT}/{self._number}/{name}"

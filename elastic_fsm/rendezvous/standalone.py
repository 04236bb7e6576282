"""One node, nobody to agree with: every answer comes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.rendezvous.base import Rendezvous
from elastic_fsm.rendezvous.ports import free_port
from elastic_fsm.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.loop import Loop
    from elastic_fsm.world import Node

__all__ = ["Standalone"]


class Standalone(Rendezvous):
    """A world of one node. Each round has a new number and a new port."""

    def __init__(
        self, loop: Loop, *, address: str | None = None, find_port: Callable[[str], int] = free_port
    ) -> None:
        self._loop = loop
        self._address = address
        self._find_port = find_port
        self._round = 0

    def join(self, node: Node, attempt: int) -> None:
        """Answered at once."""
        try:
            port = self._find_port(node.address)
        except OSError as error:
            reason = f"no free port on {node.address}: {error}"
            self._loop.post(Event("rendezvous_failed", {"reason": reason}, attempt=attempt))
            return
        world = World(self._round, (node,), 0, self._address or node.address, port)
        self._round += 1
        data = {"world": world.to_dict()}
        self._loop.post(Event("rendezvous_completed", data, attempt=attempt))

    def barrier(self, attempt: int) -> None:
        """Answered at once."""
        self._loop.post(Event("barrier_passed", attempt=attempt))

    def leave(self) -> None:
        """Nobody is left to notice."""

    def close(self) -> None:
        """Nothing is held."""

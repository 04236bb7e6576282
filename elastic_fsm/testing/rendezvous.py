"""A rendezvous whose other nodes live in a script."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.rendezvous.base import Rendezvous
from elastic_fsm.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.loop import Loop
    from elastic_fsm.world import Node

__all__ = ["ScriptedRendezvous"]


class ScriptedRendezvous(Rendezvous):
    """Answers at once, for this node alone; with ``answering`` off the script does."""

    def __init__(self, loop: Loop) -> None:
        self.answering = True
        self._loop = loop
        self._round = itertools.count()
        self._node: Node | None = None
        self._attempt = -1

    def join(self, node: Node, attempt: int) -> None:
        """See :meth:`Rendezvous.join`."""
        self._node, self._attempt = node, attempt
        if self.answering:
            self.complete()

    def complete(self, *, before: Iterable[Node] = (), after: Iterable[Node] = ()) -> None:
        """The nodes agree; there may be others before and after this one."""
        if self._node is not None:
            nodes = (*before, self._node, *after)
            number = next(self._round)
            world = World(number, nodes, nodes.index(self._node), nodes[0].address, 29500 + number)
            self.answer("rendezvous_completed", world=world.to_dict())

    def answer(self, name: str, **data: Any) -> None:
        """Any answer to what was asked last."""
        self._loop.post(Event(name, data, attempt=self._attempt))

    def barrier(self, attempt: int) -> None:
        """See :meth:`Rendezvous.barrier`."""
        self._attempt = attempt
        if self.answering:
            self.answer("barrier_passed")

    def leave(self) -> None:
        """Nobody is left to notice."""

    def close(self) -> None:
        """Nothing is held."""

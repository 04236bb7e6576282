"""The port of a rendezvous: ask, and the answer comes back as an event.

Leaving, closing and restarting are three different things: a node that restarts its workers
joins again, one that leaves lets the others go on, and only closing ends the run for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.world import Node

__all__ = ["Rendezvous"]


class Rendezvous(ABC):
    """The agreement between nodes; no method waits."""

    @abstractmethod
    def join(self, node: Node, attempt: int) -> None:
        """Take part in the next round.

        Answered by one of ``rendezvous_completed`` (data: ``world``), ``rendezvous_failed``
        (``reason``), ``spare_assigned`` (and later one of the others) or ``run_finished``, each
        marked with ``attempt``.
        """

    @abstractmethod
    def barrier(self, attempt: int) -> None:
        """This node's workers are done; answered by ``barrier_passed`` when all nodes' are."""

    @abstractmethod
    def leave(self) -> None:
        """Take no further part; the others may go on."""

    @abstractmethod
    def close(self) -> None:
        """Give back connections and threads."""

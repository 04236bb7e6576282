"""A handler for one node, which has nobody to wait for. It needs neither a network nor torch."""

from __future__ import annotations

from elastic_fsm.rendezvous.errors import RendezvousClosedError
from elastic_fsm.rendezvous.handler import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
)
from elastic_fsm.rendezvous.hash_store import HashStore
from elastic_fsm.rendezvous.ports import free_port

__all__ = ["SingleNodeHandler"]


class SingleNodeHandler(RendezvousHandler):
    """Every rendezvous is complete at once, with a new store and a new port.

    The workers meet at ``local_addr``, by default on the loopback interface.
    """

    def __init__(self, run_id: str = "", local_addr: str | None = None) -> None:
        self._run_id = run_id
        self._address = local_addr or "127.0.0.1"
        self._closed = False

    def get_backend(self) -> str:
        """See :meth:`RendezvousHandler.get_backend`."""
        return "single"

    def next_rendezvous(self) -> RendezvousInfo:
        """See :meth:`RendezvousHandler.next_rendezvous`. Raises ``OSError`` without a free port."""
        if self._closed:
            raise RendezvousClosedError
        meeting = RendezvousStoreInfo(self._address, free_port(""))
        return RendezvousInfo(HashStore(), 0, 1, meeting)

    def is_closed(self) -> bool:
        """See :meth:`RendezvousHandler.is_closed`."""
        return self._closed

    def set_closed(self) -> None:
        """See :meth:`RendezvousHandler.set_closed`."""
        self._closed = True

    def num_nodes_waiting(self) -> int:
        """See :meth:`RendezvousHandler.num_nodes_waiting`."""
        return 0

    def get_run_id(self) -> str:
        """See :meth:`RendezvousHandler.get_run_id`."""
        return self._run_id

    def shutdown(self) -> bool:
        """See :meth:`RendezvousHandler.shutdown`."""
        self._closed = True
        return True

"""Where the workers of a round meet: what node 0 knows of it, and how those hear that wait for it.

torch's handler says it in the first round only. Later the others keep the old address, whichever
node has rank 0 now, and one that comes new waits, inside of torch, for an address that nobody
writes. So node 0 writes it in every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastic_fsm.rendezvous.handler import RendezvousInfo

__all__ = ["let_newcomers_in", "own_address"]


def own_address(info: RendezvousInfo) -> str:
    """What the handler calls node 0, asked on that node; empty when it does not say."""
    place = info.bootstrap_store_info
    return place.master_addr if place is not None else ""


def let_newcomers_in(store: Any, address: str, port: int) -> None:
    """Write torch's own keys, unless its handler has done so in this round."""
    for key, value in (("MASTER_ADDR", address), ("MASTER_PORT", str(port))):
        if not store.check([key]):
            store.set(key, value)

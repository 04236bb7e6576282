"""The end of a run for all nodes, so that all hear of it."""

from __future__ import annotations

import time
from typing import Any

from elastic_fsm.rendezvous.lost_store import place_of

__all__ = ["shut_down"]

_LAST_WORD = 2.0
"""Seconds for nodes that wait: inside of torch they look once a second whether the run is over."""


def shut_down(handler: Any) -> None:
    """Close the rendezvous for all nodes.

    A store that is served over the network may end with this process; whether it does, it does
    not say, and so each node that is done stays. Where nodes still wait to be let in, this returns
    when they have had the time to hear that they are not needed.
    """
    if (
        handler.shutdown()
        and place_of(getattr(handler, "_store", None))
        and _anybody_waits(handler)
    ):
        # Nothing else is left to do, and nobody says that he has heard it.
        time.sleep(_LAST_WORD)


def _anybody_waits(handler: Any) -> bool:
    """As far as torch's dynamic handlers let us see; nothing public tells of spare nodes."""
    state = getattr(getattr(handler, "_state_holder", None), "state", None)
    return bool(getattr(state, "redundancy_list", ()) or getattr(state, "wait_list", ()))

"""A handler as the configuration describes it, made when it is first needed."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.rendezvous.closing import shut_down
from elastic_fsm.rendezvous.handler import RendezvousParameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.rendezvous.handler import RendezvousInfo

__all__ = ["LaterHandler", "make_handler"]

_PATIENCE = 5.0
"""Seconds for telling the other nodes that the run is over."""


def make_handler(values: Mapping[str, Any], run_id: str) -> LaterHandler:
    """The handler that the configuration names; ``run_id`` is what the nodes have in common."""
    rendezvous = values["rendezvous"]
    # Some of torch's handlers take no None, where they have a default.
    options = {key: value for key, value in rendezvous["options"].items() if value is not None}
    if rendezvous["name"] == "static":
        options["rank"] = rendezvous["node_rank"] or 0
    return LaterHandler(
        RendezvousParameters(
            rendezvous["name"],
            rendezvous["endpoint"],
            run_id,
            rendezvous["min_nodes"],
            rendezvous["max_nodes"],
            local_addr=values["spec"]["local_addr"],
            **options,
        )
    )


class LaterHandler:
    """A handler that is made when the first rendezvous is asked for.

    Making one of torch's connects to another node, which may take a minute and cannot be
    interrupted. So it belongs where a rendezvous belongs, too: into a thread that can be left.
    """

    def __init__(self, parameters: RendezvousParameters) -> None:
        self._parameters = parameters
        self._handler: Any = None

    @property
    def settings(self) -> Any:
        """Those of the handler, where it has any."""
        return getattr(self._handler, "settings", None)

    def next_rendezvous(self) -> RendezvousInfo:
        """See :meth:`RendezvousHandler.next_rendezvous`; raises also what making it raises."""
        if self._handler is None:
            from elastic_fsm.rendezvous.handler_registry import get_rendezvous_handler

            self._handler = get_rendezvous_handler(self._parameters)
        info: RendezvousInfo = self._handler.next_rendezvous()
        return info

    def num_nodes_waiting(self) -> int:
        """See :meth:`RendezvousHandler.num_nodes_waiting`."""
        return 0 if self._handler is None else int(self._handler.num_nodes_waiting())

    def shut_down(self) -> None:
        """End the run for all nodes, as far as they can be reached within a few seconds."""
        if self._handler is not None:
            ending = threading.Thread(target=self._shut_down, name="rendezvous end", daemon=True)
            ending.start()
            ending.join(_PATIENCE)

    def _shut_down(self) -> None:
        with suppress(Exception):  # a store that is gone has nobody left to tell
            shut_down(self._handler)

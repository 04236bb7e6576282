"""How nodes meet, as torch puts it: a handler whose ``next_rendezvous`` blocks.

The names and meanings are those of ``torch.distributed.elastic.rendezvous``. Whoever uses a handler
asks for nothing but these methods, so one of torch's own, or a subclass of it, serves as well.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from elastic_fsm.rendezvous.ports import free_port

__all__ = [
    "RendezvousHandler",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStoreInfo",
]


@dataclass
class RendezvousStoreInfo:
    """Where the workers may meet."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"

    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: Any, local_addr: str | None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """Agree on a meeting place through ``store``: rank 0 writes it there, the others wait.

        It is at ``local_addr`` of rank 0 (else its full host name), at ``server_port`` (else at a
        port that is free there).
        """
        info = RendezvousStoreInfo
        if rank == 0:
            store.set(info.MASTER_ADDR_KEY, local_addr or socket.getfqdn())
            store.set(info.MASTER_PORT_KEY, str(server_port or free_port("")))
        address = store.get(info.MASTER_ADDR_KEY).decode()
        return info(address, int(store.get(info.MASTER_PORT_KEY)))


@dataclass(frozen=True)
class RendezvousInfo:
    """What came of a rendezvous; ``rank`` and ``world_size`` count nodes, not workers.

    The nodes of the round share ``store``.
    """

    store: Any
    rank: int
    world_size: int
    bootstrap_store_info: RendezvousStoreInfo | None = None


class RendezvousHandler(ABC):
    """Meets other nodes; on each node there is one."""

    @abstractmethod
    def get_backend(self) -> str:
        """The name under which it is registered."""

    @property
    def use_agent_store(self) -> bool:
        """Whether the store at the returned address is the agents' own, which outlives workers."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Block until this node is in a complete group of nodes.

        Raises ``RendezvousClosedError``, ``RendezvousTimeoutError``,
        ``RendezvousConnectionError``, ``RendezvousStateError`` or
        ``RendezvousGracefulExitError``.
        """

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether some node has ended the run for all, as far as this one has heard."""

    @abstractmethod
    def set_closed(self) -> None:
        """End the run for all nodes; each hears of it when it looks the next time."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many nodes wait to be let in; more than 0 asks the group to form anew."""

    @abstractmethod
    def get_run_id(self) -> str:
        """The id that the nodes of one run have in common."""

    @abstractmethod
    def shutdown(self) -> bool:
        """End the run for all nodes and give everything back; whether that worked."""


class RendezvousParameters:
    """What a handler is made from. Further keywords are options of the backend.

    Raises ``ValueError`` for an empty ``backend`` and for impossible numbers of nodes.
    """

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **config: Any,
    ) -> None:
        if not backend:
            raise ValueError("the rendezvous backend must have a name")
        if min_nodes < 1:
            raise ValueError(f"min_nodes must be at least 1, not {min_nodes}")
        if max_nodes < min_nodes:
            raise ValueError(f"max_nodes ({max_nodes}) is less than min_nodes ({min_nodes})")
        self.backend = backend
        self.endpoint = endpoint
        self.run_id = run_id
        self.min_nodes = min_nodes
        self.max_nodes = max_nodes
        self.local_addr = local_addr
        self.config = config

    def get(self, key: str, default: Any = None) -> Any:
        """An option of the backend as it was given."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """An option that is yes or no; raises ``ValueError`` for anything else."""
        value = self.get(key, default)
        if value is None:
            return None
        word = str(value).lower()
        if word in _YES or word in _NO:
            return word in _YES
        raise ValueError(f"the rendezvous option {key!r} must be yes or no, not {value!r}")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """An option that is a whole number; raises ``ValueError`` for anything else."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"the rendezvous option {key!r} must be a whole number, not {value!r}"
            ) from None


_YES = {"1", "true", "t", "yes", "y"}
_NO = {"0", "false", "f", "no", "n"}

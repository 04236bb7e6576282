"""The agreement between nodes: who takes part, in which order, and where rank 0 listens."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Node", "World"]


@dataclass(frozen=True, slots=True)
class Node:
    """One node's share: its role, how many workers it runs, and the address others reach it at."""

    node_id: str
    role: str
    local_world_size: int
    address: str


@dataclass(frozen=True, slots=True)
class World:
    """The result of one rendezvous; the order of ``nodes`` is the order of their ranks."""

    round: int
    nodes: tuple[Node, ...]
    node_rank: int
    master_addr: str
    master_port: int

    @property
    def size(self) -> int:
        """Number of workers on all nodes."""
        return sum(node.local_world_size for node in self.nodes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as an event carries them."""
        return {**asdict(self), "nodes": [asdict(node) for node in self.nodes]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> World:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**values, "nodes": tuple(Node(**node) for node in values["nodes"])})

"""Ranks from a world: contiguous per node, in the order of the nodes.

The rule is that of torch's agent: a worker's global rank is the number of workers on lower
nodes plus its local rank; its role rank counts only nodes of its own role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.group import Worker

if TYPE_CHECKING:
    from elastic_fsm.world import World

__all__ = ["assign_ranks"]


def assign_ranks(world: World) -> list[Worker]:
    """The workers of this node, by local rank."""
    me = world.nodes[world.node_rank]
    lower = world.nodes[: world.node_rank]
    base = sum(node.local_world_size for node in lower)
    role_base = sum(node.local_world_size for node in lower if node.role == me.role)
    role_size = sum(node.local_world_size for node in world.nodes if node.role == me.role)
    world_size = world.size
    return [
        Worker(
            local_rank=local_rank,
            global_rank=base + local_rank,
            role_rank=role_base + local_rank,
            world_size=world_size,
            role_world_size=role_size,
        )
        for local_rank in range(me.local_world_size)
    ]

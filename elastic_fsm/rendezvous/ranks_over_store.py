"""Ranks for the workers of all nodes, agreed on through the store that the nodes share.

Keys and values are those of torch's agent: each node says what it runs under
``torchelastic/role_info/<node rank>``, node 0 answers each under
``torchelastic/assigned_ranks/<node rank>``, all of it JSON.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from elastic_fsm.group import Worker
from elastic_fsm.rendezvous.store_waiting import wait_for_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.group import WorkerSpec

__all__ = ["exchange_ranks"]

_ROLE_INFO = "torchelastic/role_info/"
_ASSIGNED = "torchelastic/assigned_ranks/"


def exchange_ranks(
    store: Any,
    group_rank: int,
    group_world_size: int,
    spec: WorkerSpec,
    *,
    timeout: float | None = None,
) -> list[Worker]:
    """The workers of this node, by local rank.

    With ``TORCH_ELASTIC_WORKER_IDENTICAL=1`` in the environment, which promises that all nodes
    are alike, nobody is asked. Raises ``TimeoutError`` when a node does not say its part within
    ``timeout`` seconds (None: the store's own).
    """
    size = spec.local_world_size
    if os.environ.get("TORCH_ELASTIC_WORKER_IDENTICAL") == "1":
        total = group_world_size * size
        return _workers(size, [group_rank * size, total, group_rank * size, total])
    info = {"role": spec.role, "rank": group_rank, "local_world_size": size}
    store.set(f"{_ROLE_INFO}{group_rank}", json.dumps(info))
    if group_rank == 0:
        _assign(store, group_world_size, timeout)
    answer = f"{_ASSIGNED}{group_rank}"
    wait_for_keys(store, [answer], timeout=timeout)
    return _workers(size, json.loads(store.get(answer)))


def _assign(store: Any, group_world_size: int, timeout: float | None) -> None:
    """Node 0 computes for all."""
    keys = [f"{_ROLE_INFO}{rank}" for rank in range(group_world_size)]
    wait_for_keys(store, keys, timeout=timeout)
    infos = [json.loads(value) for value in store.multi_get(keys)]
    for rank, numbers in enumerate(_numbers(infos)):
        store.set(f"{_ASSIGNED}{rank}", json.dumps(numbers))


def _numbers(infos: Sequence[dict[str, Any]]) -> Iterator[list[int]]:
    """By node: its first global rank, the world size, its first role rank, the role's size."""
    by_role: Counter[str] = Counter()
    for info in infos:
        by_role[info["role"]] += info["local_world_size"]
    before: Counter[str] = Counter()
    for info in infos:
        role = info["role"]
        yield [before.total(), by_role.total(), before[role], by_role[role]]
        before[role] += info["local_world_size"]


def _workers(size: int, numbers: Sequence[int]) -> list[Worker]:
    base, world_size, role_base, role_world_size = numbers
    return [
        Worker(rank, base + rank, role_base + rank, world_size, role_world_size)
        for rank in range(size)
    ]

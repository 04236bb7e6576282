"""The environment of a worker: what a script written for torchrun reads.

Names and meanings are those of ``torch.distributed.elastic`` (torch 2.13). Two of torch's
habits are not kept: each start has a store and a port of its own, so
``TORCHELASTIC_USE_AGENT_STORE`` is always ``False`` and rank 0 hosts it; and
``TORCHELASTIC_RESTART_COUNT`` counts the restarts that failures have cost so far.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from elastic_fsm.group import Worker, WorkerGroup, WorkerSpec

__all__ = ["common_environment", "worker_environment"]


def worker_environment(
    group: WorkerGroup,
    worker: Worker,
    *,
    restart_count: int,
    run_id: str,
    error_file: Path | None,
    stop_signals: Iterable[str],
    timer_file: str = "",
    inherited: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What is laid over the agent's own environment (``inherited``, by default ``os.environ``).

    Raises ``ValueError`` when ``virtual_local_rank`` is asked for and there is no device for
    the worker.
    """
    spec = group.spec
    before = os.environ if inherited is None else inherited
    return {
        **common_environment(spec, before),
        **_ranks(group, worker),
        "MASTER_ADDR": str(group.master_addr),
        "MASTER_PORT": str(group.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(spec.max_restarts),
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "" if error_file is None else str(error_file),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(stop_signals),
        **({"TORCHELASTIC_TIMER_FILE": timer_file} if timer_file else {}),
        **_virtual_rank(spec, worker, before),
        **spec.env,
        **spec.worker_env.get(worker.local_rank, {}),
    }


def common_environment(
    spec: WorkerSpec, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The part that is the same for all workers and attempts."""
    before = os.environ if inherited is None else inherited
    return {
        **_unless_set(before, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        # One thread for each worker unless the user says otherwise: many would fight for cores.
        **(_unless_set(before, "OMP_NUM_THREADS", "1") if spec.local_world_size > 1 else {}),
        **_unless_set(before, "PYTHONUNBUFFERED", "1"),
        **spec.env,
    }


def _ranks(group: WorkerGroup, worker: Worker) -> dict[str, str]:
    return {
        "RANK": str(worker.global_rank),
        "LOCAL_RANK": str(worker.local_rank),
        "GROUP_RANK": str(group.group_rank),
        "ROLE_RANK": str(worker.role_rank),
        "ROLE_NAME": group.spec.role,
        "WORLD_SIZE": str(worker.world_size),
        "LOCAL_WORLD_SIZE": str(group.spec.local_world_size),
        "GROUP_WORLD_SIZE": str(group.group_world_size),
        "ROLE_WORLD_SIZE": str(worker.role_world_size),
    }


def _unless_set(before: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    return {} if name in before else {name: value}


def _virtual_rank(spec: WorkerSpec, worker: Worker, before: Mapping[str, str]) -> dict[str, str]:
    """Every worker believes to be local rank 0 of a machine with one device."""
    if not spec.virtual_local_rank:
        return {}
    listed = before.get("CUDA_VISIBLE_DEVICES")
    devices = listed.split(",") if listed else [str(n) for n in range(spec.local_world_size)]
    if worker.local_rank >= len(devices):
        raise ValueError(
            f"virtual_local_rank: no device for local rank {worker.local_rank} "
            f"in CUDA_VISIBLE_DEVICES={listed}"
        )
    return {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": devices[worker.local_rank].strip()}

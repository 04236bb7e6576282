"""Whether the values of a ``WorkerSpec`` can work."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.group import WorkerSpec

__all__ = ["check_env", "check_seconds", "check_spec", "check_whole"]


def check_spec(spec: WorkerSpec) -> None:
    """Raises ``ValueError`` for the first value that cannot work."""
    check_whole("local_world_size", spec.local_world_size, 1)
    check_whole("max_restarts", spec.max_restarts, 0)
    _check_number("monitor_interval", spec.monitor_interval)
    if spec.monitor_interval <= 0:
        raise ValueError(f"monitor_interval must be more than 0, not {spec.monitor_interval}")
    if not isinstance(spec.role, str):
        raise ValueError(f"role must be text, not {spec.role!r}")
    if not (callable(spec.entrypoint) or (isinstance(spec.entrypoint, str) and spec.entrypoint)):
        raise ValueError(
            f"entrypoint must name a program or be a function, not {spec.entrypoint!r}"
        )
    if not isinstance(spec.args, list | tuple):
        raise ValueError(f"args must be a list or a tuple, not {spec.args!r}")
    if spec.rdzv_handler is not None and not hasattr(spec.rdzv_handler, "next_rendezvous"):
        raise ValueError(f"rdzv_handler must be a RendezvousHandler, not {spec.rdzv_handler!r}")
    if spec.master_port is not None:
        check_whole("master_port", spec.master_port, 0)
    _check_ranks(spec)
    check_env("env", spec.env)
    for rank, env in spec.worker_env.items():
        check_env(f"worker_env[{rank}]", env)


def check_seconds(name: str, value: Any) -> None:
    """Raises ``ValueError`` for what is no time to wait for."""
    from elastic_fsm.durations import LONGEST  # a start that asks for none of these is quicker

    _check_number(name, value)
    if not 0 <= value <= LONGEST:
        raise ValueError(f"{name} must not be negative, and must end: {value}")


def check_env(name: str, env: Mapping[Any, Any]) -> None:
    """Raises ``ValueError`` for what no environment can hold."""
    for key, value in env.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise ValueError(f"{name} must hold texts, not {key!r}: {value!r}")
        if not key or "=" in key or "\0" in key + value:
            raise ValueError(f"{name}: no environment can hold {key!r}: {value!r}")


def check_whole(name: str, value: Any, least: int) -> None:
    """Raises ``ValueError`` for what is no whole number, or less than ``least``."""
    try:
        enough = operator.index(value) >= least
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None
    if not enough:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"{name} must be a number of seconds, not {value!r}")


def _check_ranks(spec: WorkerSpec) -> None:
    wanted = {"stdin": [] if spec.stdin is None else [spec.stdin], "worker_env": spec.worker_env}
    for name, ranks in wanted.items():
        for rank in ranks:
            if rank not in range(spec.local_world_size):
                most = spec.local_world_size - 1
                raise ValueError(f"{name}: there is no local rank {rank!r}; they are 0 to {most}")

"""Whether the values of a ``WorkerSpec`` can work."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastic_fsm.group import WorkerSpec

__all__ = [
    "check_env",
    "check_filters",
    "check_flag",
    "check_seconds",
    "check_spec",
    "check_text",
    "check_whole",
]

_HIGHEST_PORT = 65535


def check_spec(spec: WorkerSpec) -> None:
    """Raises ``ValueError`` for the first value that cannot work."""
    check_whole("local_world_size", spec.local_world_size, 1)
    check_whole("max_restarts", spec.max_restarts, 0)
    _check_interval(spec.monitor_interval)
    check_text("role", spec.role)
    _check_command(spec)
    if spec.rdzv_handler is not None and not hasattr(spec.rdzv_handler, "next_rendezvous"):
        raise ValueError(f"rdzv_handler must be a RendezvousHandler, not {spec.rdzv_handler!r}")
    _check_addresses(spec)
    check_filters("duplicate_stdout_filters", spec.duplicate_stdout_filters)
    check_filters("duplicate_stderr_filters", spec.duplicate_stderr_filters)
    check_flag("virtual_local_rank", spec.virtual_local_rank)
    _check_envs(spec)
    _check_ranks(spec)


def check_text(name: str, value: Any) -> None:
    """Raises ``ValueError`` for what is no text that a process can be given."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {value!r}")
    if not _can_be_given(value):
        raise ValueError(f"{name}: no process can be given {value!r}")


def check_filters(name: str, value: Any) -> None:
    """Raises ``ValueError`` for what is neither None nor texts to look for in a line."""
    if value is None:
        return
    if not isinstance(value, list | tuple | set | frozenset) or not all(
        isinstance(text, str) for text in value
    ):
        raise ValueError(f"{name} must be a list of texts, not {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Raises ``ValueError`` for what is neither yes nor no; 1 and 0 are."""
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, not {value!r}")


def check_seconds(name: str, value: Any) -> None:
    """Raises ``ValueError`` for what is no time to wait for."""
    from elastic_fsm.durations import LONGEST  # a start that asks for none of these is quicker

    _check_number(name, value)
    if not 0 <= value <= LONGEST:
        raise ValueError(f"{name} must not be negative, and must end: {value}")


def check_env(name: str, env: Mapping[Any, Any]) -> None:
    """Raises ``ValueError`` for what no environment can hold."""
    if not isinstance(env, Mapping):
        raise ValueError(f"{name} must be a mapping, not {env!r}")
    for key, value in env.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise ValueError(f"{name} must hold texts, not {key!r}: {value!r}")
        if not key or "=" in key or not _can_be_given(key + value):
            raise ValueError(f"{name}: no environment can hold {key!r}: {value!r}")


def check_whole(name: str, value: Any, least: int) -> None:
    """Raises ``ValueError`` for what is no whole number, or less than ``least``."""
    try:
        enough = operator.index(_no_flag(value)) >= least
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None
    if not enough:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def _no_flag(value: Any) -> Any:
    """Python counts with True and False; whoever writes them means something else."""
    return None if isinstance(value, bool) else value


def _can_be_given(text: str) -> bool:
    """Whether a command, a variable or a path can hold it: no NUL, no half of a character.

    Bytes that are not UTF-8, as Python writes them (``\\udcff``), can.
    """
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _check_number(name: str, value: Any) -> None:
    if not isinstance(_no_flag(value), int | float) or math.isnan(value):
        raise ValueError(f"{name} must be a number of seconds, not {value!r}")


def _check_interval(value: Any) -> None:
    _check_number("monitor_interval", value)
    if value <= 0:
        raise ValueError(f"monitor_interval must be more than 0, not {value}")
    check_seconds("monitor_interval", value)


def _check_command(spec: WorkerSpec) -> None:
    """What a function is given may be anything: it never leaves Python."""
    if not (callable(spec.entrypoint) or (isinstance(spec.entrypoint, str) and spec.entrypoint)):
        raise ValueError(
            f"entrypoint must name a program or be a function, not {spec.entrypoint!r}"
        )
    if not isinstance(spec.args, list | tuple):
        raise ValueError(f"args must be a list or a tuple, not {spec.args!r}")
    check_flag("module", spec.module)
    if spec.cwd is not None:
        check_text("cwd", spec.cwd)
    if not callable(spec.entrypoint):
        check_text("entrypoint", spec.entrypoint)
        for index, argument in enumerate(spec.args):
            check_text(f"args[{index}]", str(argument))


def _check_addresses(spec: WorkerSpec) -> None:
    if spec.local_addr is not None:
        check_text("local_addr", spec.local_addr)
    if spec.master_addr is not None:
        check_text("master_addr", spec.master_addr)
        if not spec.master_addr:
            raise ValueError("master_addr must name a host, not ''")
    if spec.master_port is not None:
        check_whole("master_port", spec.master_port, 0)
        if spec.master_port > _HIGHEST_PORT:
            raise ValueError(f"master_port must be at most {_HIGHEST_PORT}, not {spec.master_port}")


def _check_envs(spec: WorkerSpec) -> None:
    check_env("env", spec.env)
    if not isinstance(spec.worker_env, Mapping):
        raise ValueError(f"worker_env must be a mapping, not {spec.worker_env!r}")
    for rank, env in spec.worker_env.items():
        check_env(f"worker_env[{rank}]", env)


def _check_ranks(spec: WorkerSpec) -> None:
    wanted = {"stdin": [] if spec.stdin is None else [spec.stdin], "worker_env": spec.worker_env}
    for name, ranks in wanted.items():
        for rank in ranks:
            if rank not in range(spec.local_world_size):
                most = spec.local_world_size - 1
                raise ValueError(f"{name}: there is no local rank {rank!r}; they are 0 to {most}")

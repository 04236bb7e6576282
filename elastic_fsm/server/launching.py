"""``elastic_launch``: a function or a program, run by an agent of its own on this node.

The names, fields and defaults are those of ``torch.distributed.launcher.api`` (torch 2.13).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import ChildFailedError, SignalException
from elastic_fsm.group import WorkerSpec
from elastic_fsm.logs.specs import DefaultLogsSpecs
from elastic_fsm.rendezvous.closing import shut_down
from elastic_fsm.rendezvous.handler import RendezvousParameters
from elastic_fsm.rendezvous.handler_registry import get_rendezvous_handler
from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.server.stop_signals import read_stop_signals
from elastic_fsm.spec_checks import (
    check_filters,
    check_flag,
    check_seconds,
    check_text,
    check_whole,
)
from elastic_fsm.telemetry.events import get_logging_handler, record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.health import HealthCheckServer
    from elastic_fsm.logs.specs import LogsSpecs

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_RDZV_TIMEOUT = 900
_SHUTDOWN_TIMEOUT = "30"


@dataclass
class LaunchConfig:
    """How to launch a group. Times are in seconds.

    An empty ``run_id`` is replaced by a unique one. ``rdzv_timeout`` is torch's older name of
    ``rdzv_configs["timeout"]``; -1 leaves that as it is. ``shutdown_timeout`` is by default that
    of the variable ``TORCH_ELASTIC_SHUTDOWN_TIMEOUT``, else 30. ``overrides`` are not torch's:
    those of the command line, for the machine and all else that is configured.

    Raises ``ValueError`` for values that cannot work.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: float | None = None
    overrides: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.rdzv_configs, MutableMapping):
            raise ValueError(f"rdzv_configs must be a dict, not {self.rdzv_configs!r}")
        if not isinstance(self.run_id, str):
            raise ValueError(f"run_id must be text, not {self.run_id!r}")
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", _RDZV_TIMEOUT)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = _inherited_shutdown_timeout()
        check_seconds("shutdown_timeout", self.shutdown_timeout)
        check_whole("nproc_per_node", self.nproc_per_node, 1)
        if not isinstance(self.signals_to_handle, str):
            raise ValueError(f"signals_to_handle must be text, not {self.signals_to_handle!r}")
        read_stop_signals(self.signals_to_handle, "signals_to_handle")
        _check_nodes(self)
        _check_workers(self)


def _check_nodes(config: LaunchConfig) -> None:
    check_whole("min_nodes", config.min_nodes, 1)
    check_whole("max_nodes", config.max_nodes, config.min_nodes)
    _as_whole("rdzv_timeout", config.rdzv_timeout, "a number of seconds")
    if config.rdzv_backend == "static":
        _check_static(config.rdzv_configs, config.max_nodes)


def _check_static(options: Mapping[str, Any], nodes: int) -> None:
    """torch reads these two as they come; what other backends do with theirs, they tell."""
    _as_whole("rdzv_configs['timeout']", options["timeout"], "a number of seconds")
    rank = _as_whole("rdzv_configs['rank']", options.get("rank", 0), "a whole number")
    if rank not in range(nodes):  # the others would wait for ever
        what = f"there is no node {rank} among {nodes}; from 0 to {nodes - 1}"
        raise ValueError(f"rdzv_configs['rank']: {what}")


def _check_workers(config: LaunchConfig) -> None:
    if config.local_addr is not None:
        check_text("local_addr", config.local_addr)
    check_flag("virtual_local_rank", config.virtual_local_rank)
    check_filters("duplicate_stdout_filters", config.duplicate_stdout_filters)
    check_filters("duplicate_stderr_filters", config.duplicate_stderr_filters)


def _as_whole(name: str, value: Any, kind: str) -> int:
    """An option as torch's handlers read it; text is one, as of a command line."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {kind}, not {value!r}") from None


def _inherited_shutdown_timeout() -> float:
    name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
    text = os.environ.get(name, _SHUTDOWN_TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"{name} must be seconds, not {text!r}") from None
    check_seconds(name, seconds)
    return seconds


class elastic_launch:
    """``elastic_launch(config, train)(*args)``: what ``train`` returned, by global rank.

    ``entrypoint`` is a function, or a program by its path.
    """

    def __init__(
        self,
        config: LaunchConfig,
        entrypoint: Callable[..., Any] | str | None,
        health_check_server: HealthCheckServer | None = None,
    ) -> None:
        self._config = config
        self._entrypoint = entrypoint
        self._health_check_server = health_check_server

    def __call__(self, *args: Any) -> dict[int, Any]:
        """See :func:`~elastic_fsm.server.launching.launch_agent`."""
        return launch_agent(self._config, self._entrypoint, list(args), self._health_check_server)


def launch_agent(
    config: LaunchConfig,
    entrypoint: Callable[..., Any] | str | None,
    args: list[Any],
    health_check_server: HealthCheckServer | None = None,
) -> dict[int, Any]:
    """Run a group; returns the values of this node's workers by global rank.

    ``health_check_server`` is started and stopped around the run; it needs no more than the
    methods ``start`` and ``stop``.

    Raises :class:`~elastic_fsm.ChildFailedError` when workers failed and there was no restart
    left, a :class:`~elastic_fsm.rendezvous.errors.RendezvousError` when the nodes could not agree,
    of the kind :class:`~elastic_fsm.rendezvous.errors.RendezvousConnectionError` where their store
    is gone, and what the agent's ``run`` raises. The rendezvous is closed for all nodes at the end,
    except when this one was told to stop: the others may go on without it.
    """
    get_logging_handler(config.event_log_handler)  # a ValueError: no such sink
    spec = _spec(config, entrypoint, args)
    agent = LocalElasticAgent(
        spec,
        config.logs_specs,
        config.start_method,
        log_line_prefix_template=config.log_line_prefix_template,
        shutdown_timeout=config.shutdown_timeout or 0,
        health_check_server=health_check_server,
        overrides=[f"stop.signals=[{config.signals_to_handle}]", *config.overrides],
    )
    closes = True
    try:
        result = agent.run()
    except SignalException:
        closes = False
        record(agent.get_event_failed(), config.event_log_handler)
        raise
    except Exception:
        record(agent.get_event_failed(), config.event_log_handler)
        raise
    finally:
        if closes:
            shut_down(spec.rdzv_handler)
    record(agent.get_event_succeeded(), config.event_log_handler)
    lost = agent._rendezvous_error
    if result.failures:
        raise ChildFailedError(spec.get_entrypoint_name(), result.failures) from lost
    if lost is not None and result.is_failed():
        raise lost
    if result.is_failed():  # of no worker's own doing: they did not start in time, for example
        raise RuntimeError(f"{spec.get_entrypoint_name()} failed; see the run's journal")
    return result.return_values


def _spec(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]
) -> WorkerSpec:
    parameters = RendezvousParameters(
        config.rdzv_backend,
        config.rdzv_endpoint,
        config.run_id or secrets.token_hex(8),
        config.min_nodes,
        config.max_nodes,
        local_addr=config.local_addr,
        **config.rdzv_configs,
    )
    return WorkerSpec(
        role=config.role,
        local_world_size=config.nproc_per_node,
        rdzv_handler=get_rendezvous_handler(parameters),
        entrypoint=entrypoint,
        args=tuple(args),
        max_restarts=config.max_restarts,
        monitor_interval=config.monitor_interval,
        local_addr=config.local_addr,
        event_log_handler=config.event_log_handler,
        numa_options=config.numa_options,
        duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters,
        virtual_local_rank=config.virtual_local_rank,
    )

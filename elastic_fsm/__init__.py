"""elastic_fsm: an elastic agent whose lifecycle is data.

Names are looked up when they are first used, so that importing the package costs nothing that
the program does not need.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # not typing's: importing that takes as long as all the rest until main()

if TYPE_CHECKING:
    from typing import Any

    from elastic_fsm.config.schema import (
        LauncherConfig,
        LogsConfig,
        RendezvousConfig,
        RestartConfig,
        RunConfig,
        SpecConfig,
        StopConfig,
    )
    from elastic_fsm.failures import ChildFailedError, ProcessFailure, SignalException
    from elastic_fsm.graph import machine_diagram
    from elastic_fsm.group import RunResult, Worker, WorkerGroup, WorkerSpec, WorkerState
    from elastic_fsm.launch import run
    from elastic_fsm.logs.specs import DefaultLogsSpecs, LogsSpecs, Std
    from elastic_fsm.problems import BadInput, Problem
    from elastic_fsm.registry import action, condition, delay
    from elastic_fsm.rendezvous.handler import (
        RendezvousHandler,
        RendezvousInfo,
        RendezvousParameters,
    )
    from elastic_fsm.rendezvous.handler_registry import rendezvous_handler_registry
    from elastic_fsm.server.api import ElasticAgent
    from elastic_fsm.server.launching import LaunchConfig, elastic_launch
    from elastic_fsm.server.local import LocalElasticAgent
    from elastic_fsm.server.simple import SimpleElasticAgent
    from elastic_fsm.worker import record

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "ChildFailedError",
    "DefaultLogsSpecs",
    "ElasticAgent",
    "LaunchConfig",
    "LauncherConfig",
    "LocalElasticAgent",
    "LogsConfig",
    "LogsSpecs",
    "Problem",
    "ProcessFailure",
    "RendezvousConfig",
    "RendezvousHandler",
    "RendezvousInfo",
    "RendezvousParameters",
    "RestartConfig",
    "RunConfig",
    "RunResult",
    "SignalException",
    "SimpleElasticAgent",
    "SpecConfig",
    "Std",
    "StopConfig",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
    "__version__",
    "action",
    "condition",
    "delay",
    "elastic_launch",
    "machine_diagram",
    "record",
    "rendezvous_handler_registry",
    "run",
]

_HOMES = {
    "config.schema": (
        "LauncherConfig LogsConfig RendezvousConfig RestartConfig RunConfig SpecConfig StopConfig"
    ),
    "failures": "ChildFailedError ProcessFailure SignalException",
    # The second is what `%load_ext elastic_fsm` looks for.
    "graph": "machine_diagram load_ipython_extension",
    "group": "RunResult Worker WorkerGroup WorkerSpec WorkerState",
    "launch": "run",
    "problems": "BadInput Problem",
    "registry": "action condition delay",
    "logs.specs": "DefaultLogsSpecs LogsSpecs Std",
    "rendezvous.handler": "RendezvousHandler RendezvousInfo RendezvousParameters",
    "rendezvous.handler_registry": "rendezvous_handler_registry",
    "server.api": "ElasticAgent",
    "server.launching": "LaunchConfig elastic_launch",
    "server.local": "LocalElasticAgent",
    "server.simple": "SimpleElasticAgent",
    "worker": "record",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value

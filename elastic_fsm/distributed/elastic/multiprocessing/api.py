"""The names of ``torch.distributed.elastic.multiprocessing.api``."""

from __future__ import annotations

from elastic_fsm.failures import ProcessFailure, SignalException
from elastic_fsm.logs.specs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std, to_map
from elastic_fsm.server.processes import (
    MultiprocessContext,
    PContext,
    RunProcsResult,
    SubprocessContext,
    start_processes,
)

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "start_processes",
    "to_map",
]

"""The names of ``torch.distributed.elastic.agent.server.api``."""

from __future__ import annotations

from elastic_fsm.distributed.elastic.agent.server import (
    DEFAULT_ROLE,
    ElasticAgent,
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)

__all__ = [
    "DEFAULT_ROLE",
    "ElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]

"""The names of ``torch.distributed.elastic.agent.server``."""

from __future__ import annotations

from elastic_fsm.group import RunResult, Worker, WorkerGroup, WorkerSpec, WorkerState
from elastic_fsm.server.api import DEFAULT_ROLE, ElasticAgent
from elastic_fsm.server.simple import SimpleElasticAgent

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

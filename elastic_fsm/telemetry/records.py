"""What is recorded of a run: the records that torch's agent makes, built from the group, and when.

The journal is the truth; these are made from it, for log collectors that know torch's.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

from elastic_fsm.group import WorkerState
from elastic_fsm.telemetry.events import Event, EventSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from elastic_fsm.group import RunResult, Worker, WorkerGroup

    class Emit(Protocol):
        """Makes a record and writes it; ``more`` is what ``status_record`` takes."""

        def __call__(
            self, state: str, source: EventSource, worker: Worker | None = None, **more: Any
        ) -> None: ...


__all__ = ["JournalRecords", "emit_worker_ends", "status_record", "worker_end"]


def status_record(
    state: str,
    source: EventSource,
    group: WorkerGroup,
    worker: Worker | None = None,
    *,
    run_id: str,
    backend: str,
    restarts: int,
    total_run_time: int = 0,
    raw_error: str | None = None,
    duration_ms: float | None = None,
    exit_code: int | None = None,
    worker_pid: int | None = None,
) -> Event:
    """A record of the agent or, with ``worker``, of one of its workers.

    ``total_run_time`` is in seconds; ``restarts`` counts those that failures have cost.
    """
    metadata = {
        "run_id": run_id,
        "global_rank": None if worker is None else worker.global_rank,
        "group_rank": group.group_rank,
        "worker_id": None if worker is None else str(worker.id),
        "role": group.spec.role,
        "hostname": socket.gethostname(),
        "state": state,
        "total_run_time": total_run_time,
        "rdzv_backend": backend,
        "raw_error": raw_error,
        "metadata": json.dumps(_details(group, worker, exit_code, worker_pid)),
        "agent_restarts": restarts,
        "duration_ms": duration_ms,
    }
    return Event(f"torchelastic.worker.status.{state}", source, metadata=metadata)


def _details(
    group: WorkerGroup, worker: Worker | None, exit_code: int | None, worker_pid: int | None
) -> dict[str, Any]:
    details: dict[str, Any] = {
        "group_world_size": group.group_world_size,
        "entry_point": group.spec.get_entrypoint_name(),
    }
    if worker is not None:
        details |= {
            "local_rank": worker.local_rank,
            "role_rank": worker.role_rank,
            "role_world_size": worker.role_world_size,
            "exit_code": exit_code,
            "worker_pid": worker_pid,
        }
    return details


def worker_end(worker: Worker, result: RunResult) -> str:
    """SUCCEEDED, FAILED or, of one that the agent stopped, TERMINATED."""
    if worker.global_rank in result.failures:
        return WorkerState.FAILED.value
    if worker.global_rank in result.return_values:
        return WorkerState.SUCCEEDED.value
    return "TERMINATED"


def emit_worker_ends(
    group: WorkerGroup,
    result: RunResult,
    emit: Emit,
    state_of: Callable[[Worker, RunResult], str] = worker_end,
) -> None:
    """One record for each worker: how it ended."""
    for worker in group.workers:
        failure = result.failures.get(worker.global_rank)
        emit(
            state_of(worker, result),
            EventSource.WORKER,
            worker,
            raw_error=json.dumps(failure.error_file_data) if failure else None,
            exit_code=failure.exitcode if failure else None,
            worker_pid=failure.pid if failure else None,
        )


class JournalRecords:
    """An observer of journal records: what torch's agent would have recorded meanwhile."""

    def __init__(self, group: WorkerGroup, emit: Emit) -> None:
        self._group = group
        self._emit = emit
        self._asked_at = 0.0

    def __call__(self, record: Mapping[str, Any]) -> None:
        if record.get("outcome") != "step":
            return
        if "join_rendezvous" in record["actions"]:
            self._asked_at = record["monotonic"]
        if record["event"]["name"] == "rendezvous_completed":
            self._rendezvous((record["monotonic"] - self._asked_at) * 1000)
        elif record["event"]["name"] == "workers_started":
            self._started()

    def _rendezvous(self, took_ms: float) -> None:
        """Ranks come with the rendezvous here, so that there is one duration for both."""
        for state, duration in (("RENDEZVOUS", took_ms), ("ASSIGN_WORKER_RANKS", 0.0)):
            self._emit(state, EventSource.AGENT, duration_ms=duration)

    def _started(self) -> None:
        for worker in self._group.workers:
            self._emit("START", EventSource.WORKER, worker)

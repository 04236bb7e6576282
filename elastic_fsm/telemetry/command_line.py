"""The event records of ``elastic-fsm run``: ``spec.event_log_handler``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.group import WorkerState
from elastic_fsm.telemetry.events import EventSource, record
from elastic_fsm.telemetry.records import JournalRecords, emit_worker_ends, status_record

if TYPE_CHECKING:
    from elastic_fsm.agent import Agent
    from elastic_fsm.group import RunResult, Worker

__all__ = ["RunRecords"]


class RunRecords(JournalRecords):
    """An observer of a run; :meth:`end` adds what torch's agent and launcher say at the end."""

    def __init__(self, agent: Agent, run_id: str, backend: str) -> None:
        super().__init__(agent.group, self._write)
        self._agent = agent
        self._run_id = run_id
        self._backend = backend
        self._began = agent.loop.clock.now()

    def end(self, result: RunResult, why: str) -> None:
        """How each worker and the agent ended; for an agent that was stopped, or failed, ``why``.

        An agent whose workers failed has done its work.
        """
        if result.state in (WorkerState.SUCCEEDED, WorkerState.FAILED):
            emit_worker_ends(self._agent.group, result, self._write)
            self._write("SUCCEEDED", EventSource.AGENT)
        else:
            self._write("FAILED", EventSource.AGENT, raw_error=why)

    def _write(
        self, state: str, source: EventSource, worker: Worker | None = None, **more: Any
    ) -> None:
        group = self._agent.group
        event = status_record(
            state,
            source,
            group,
            worker,
            run_id=self._run_id,
            backend=self._backend,
            restarts=self._agent.restarts_used,
            total_run_time=int(self._agent.loop.clock.now() - self._began),
            **more,
        )
        record(event, group.spec.event_log_handler)

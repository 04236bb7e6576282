"""Event records and metrics of a ``LocalElasticAgent``'s run on the full machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.group import WorkerState
from elastic_fsm.telemetry.records import JournalRecords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.server.simple import SimpleElasticAgent

__all__ = ["WorkerRecords"]


class WorkerRecords(JournalRecords):
    """An observer that makes its records through the owner's own methods."""

    def __init__(self, owner: SimpleElasticAgent) -> None:
        super().__init__(owner._worker_group, owner._emit)
        self._owner = owner

    def __call__(self, record: Mapping[str, Any]) -> None:
        if record.get("outcome") == "step" and record["entered"]:
            self._owner._put_state_metrics(WorkerState(record["worker_state"]))
        super().__call__(record)

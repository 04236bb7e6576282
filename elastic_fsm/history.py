"""What happened in each attempt: the material of reports."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import shell_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.failures import ProcessFailure
    from elastic_fsm.group import WorkerExit

__all__ = ["Attempt", "FailedCommands"]


@dataclass(slots=True)
class Attempt:
    """One start of the workers. Times are wall time; ``failures`` (by global rank) are causes."""

    number: int
    world_size: int
    started: float
    ended: float | None = None
    exits: list[WorkerExit] = field(default_factory=list)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def excuse(self, ending_signal: str) -> None:
        """The run was told to stop by a signal: workers that died of the same one did not fail."""
        for rank, failure in list(self.failures.items()):
            if signal.Signals[ending_signal] + 128 == shell_code(failure.exitcode):
                del self.failures[rank]

    def first_failure(self) -> ProcessFailure | None:
        """The cause of the others, as far as time can tell; None when no worker failed."""
        return min(self.failures.values(), key=lambda f: f.timestamp, default=None)


class FailedCommands:
    """An observer of the journal's records: the commands of rules that failed, each once."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, Any]] = {}

    def __call__(self, record: Mapping[str, Any]) -> None:
        event = record.get("event", {})
        if event.get("name") == "command_failed":
            name = event["data"]["name"]
            times = self._last.get(name, {}).get("times", 0) + 1
            self._last[name] = {**event["data"], "time": record["time"], "times": times}

    def to_list(self) -> list[dict[str, Any]]:
        """By name: what was said of the last time, when that was (wall time), and how many times
        it failed."""
        return list(self._last.values())

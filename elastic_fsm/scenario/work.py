"""The work that workers have to do: when they finish, and what a failure costs them.

Work goes on from the moment when all workers run until one ends badly or they are stopped. A
restart goes on from what was saved: everything, unless the scenario says how often they save.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.loop import Timer
    from elastic_fsm.testing.scenario import Scenario

__all__ = ["Work"]


class Work:
    """Ends all workers with 0 after ``total`` seconds of work; an observer of the agent.

    ``saving`` is the time between two checkpoints (None: nothing is ever lost).
    """

    def __init__(self, run: Scenario, total: float, saving: float | None) -> None:
        self._run = run
        self._total = total
        self._saving = saving
        self._saved = 0.0
        self._since: float | None = None
        self._timer: Timer | None = None

    def observe(self, record: Mapping[str, Any]) -> None:
        """A record of the journal."""
        if record.get("outcome") not in ("step", "ignored"):
            return
        event = record["event"]
        failed = event["name"] == "worker_exited" and event["data"]["exit_code"] != 0
        if event["name"] == "workers_started" and self._since is None:
            self._begin()
        elif failed or "stop_workers" in record.get("actions", ()):
            self._halt()

    def _begin(self) -> None:
        self._since = self._run.loop.clock.now()
        left = max(0.0, self._total - self._saved)
        self._timer = self._run.loop.call_later(left, self._finish)

    def _halt(self) -> None:
        if self._since is None or self._timer is None:
            return
        self._timer.cancel()
        done = self._run.loop.clock.now() - self._since
        self._saved += done - (done % self._saving if self._saving else 0.0)
        self._since = None

    def _finish(self) -> None:
        self._since = None
        for rank in list(self._run.launcher.alive):
            self._run.launcher.exits(rank, 0)

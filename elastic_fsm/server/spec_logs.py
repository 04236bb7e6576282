"""The workers' output as ``LogsSpecs`` describe it: launch plans with its paths, and its echo."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from elastic_fsm.logs.files import last_lines, why_nothing_is_kept
from elastic_fsm.server.teeing import Teeing

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.group import Worker, WorkerGroup
    from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
    from elastic_fsm.launchers.plan import Planner
    from elastic_fsm.logs.console import Console
    from elastic_fsm.logs.specs import LogsDest, LogsSpecs

__all__ = ["SpecLogs", "line_prefix"]


def line_prefix(template: str | None, group: WorkerGroup, worker: Worker) -> str:
    """What stands before a worker's lines on the console.

    The template knows ``${role_name}``, ``${rank}`` and ``${local_rank}``.
    """
    return Template(template or "[${role_name}${local_rank}]:").safe_substitute(
        role_name=group.spec.role, rank=worker.global_rank, local_rank=worker.local_rank
    )


class SpecLogs:
    """Planner and outputs of an agent whose logs go where ``specs`` say.

    ``prefix`` gives what stands before a worker's lines on the ``console``, by default one of
    its own.
    """

    def __init__(
        self,
        planner: Planner,
        specs: LogsSpecs,
        prefix: Callable[[WorkerGroup, Worker], str],
        *,
        console: Console | None = None,
        tail_lines: int = 20,
    ) -> None:
        self._planner = planner
        self._specs = specs
        self._prefix = prefix
        self._tail_lines = tail_lines
        self._teeing = Teeing(console)
        self._places: dict[int, LogsDest] = {}
        self._prefixes: dict[int, str] = {}
        self._filters: tuple[list[str], list[str]] = ([], [])

    def plan(self, group: WorkerGroup, *, restart_count: int) -> LaunchPlan:
        """The plan of an attempt; makes its folders, for a name may depend on what is there."""
        spec = group.spec
        plan = self._planner.plan(group, restart_count=restart_count)
        envs = {worker.local_rank: dict(worker.env) for worker in plan.workers}
        places = self._places[plan.attempt] = self._specs.reify(envs)
        self._prefixes = {w.local_rank: self._prefix(group, w) for w in group.workers}
        self._filters = (
            spec.duplicate_stdout_filters or [],
            spec.duplicate_stderr_filters or [],
        )
        workers = [_place(w, places, envs[w.local_rank]) for w in plan.workers]
        return replace(plan, workers=tuple(workers))

    def attach(self, plan: LaunchPlan) -> None:
        """Follow the files that the console shows."""
        self._teeing.attach(self._places[plan.attempt], self._prefixes, *self._filters)

    def detach(self) -> None:
        """The writers have ended: show what is left of their last lines."""
        self._teeing.detach()

    def close(self) -> None:
        """The run is over: wait for a console of its own, a few seconds at most."""
        self._teeing.close()

    def attempt_dir(self, attempt: int) -> Path | None:
        """Where the files are, of this attempt or all; None when nothing is kept."""
        root = self._specs.root_log_dir
        return None if root == os.devnull else Path(root)

    def last_lines(self, attempt: int, local_rank: int) -> list[str]:
        """The last lines of a worker's standard error; none where it went to the console."""
        path = self._places[attempt].stderrs[local_rank]
        return last_lines(Path(path), self._tail_lines) if path and path != os.devnull else []

    def why_silent(self, attempt: int, local_rank: int) -> str:
        """See :meth:`Outputs.why_silent`."""
        path = self._places[attempt].stderrs[local_rank]
        return why_nothing_is_kept(Path(path).parent) if path else ""

    def error_file(self, attempt: int, local_rank: int) -> str:
        """Path of a worker's error file; empty when there is none."""
        path = self._places[attempt].error_files.get(local_rank, "")
        return path if os.path.isfile(path) else ""


def _place(worker: WorkerPlan, places: LogsDest, env: dict[str, str]) -> WorkerPlan:
    rank = worker.local_rank
    return replace(
        worker,
        env=env,
        stdout=_path(places.stdouts[rank]),
        stderr=_path(places.stderrs[rank]),
        error_file=_path(places.error_files.get(rank, "")),
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None

"""The workers' output: the folders of an attempt, the files followed to the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from elastic_fsm.logs.files import last_lines, why_nothing_is_kept

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from elastic_fsm.group import Worker, WorkerSpec
    from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
    from elastic_fsm.launchers.plan import Planner
    from elastic_fsm.logs.console import Console

__all__ = ["WorkerOutputs", "console_prefix", "make_files"]

_LONGEST_LINE = 2000
"""Characters of one line that a report keeps; the log file has the whole."""


def make_files(plan: LaunchPlan) -> None:
    """The folders of an attempt, with empty log files. Raises ``OSError``."""
    for worker in plan.workers:
        if worker.error_file is not None:
            worker.error_file.parent.mkdir(parents=True, exist_ok=True)
        for path in (worker.stdout, worker.stderr):
            if path is not None:
                path.touch()


def console_prefix(
    template: str, worker: Worker | WorkerPlan, *, role: str, host: str, node_rank: int | str | None
) -> str:
    """What stands before a worker's lines: ``logs.prefix``, filled in."""
    return template.format(
        role=role,
        rank=worker.global_rank,
        local_rank=worker.local_rank,
        host=host,
        node_rank=node_rank,
    )


class WorkerOutputs:
    """Follows the files of one attempt after the other; ``logs`` is the group of that name."""

    def __init__(
        self,
        *,
        console: Console,
        planner: Planner,
        logs: Mapping[str, Any],
        spec: WorkerSpec,
        host: str,
    ) -> None:
        self._console = console
        self._planner = planner
        self._logs = logs
        self._spec = spec
        self._host = host
        self._followed: list[Path] = []
        self._passing: list[Path] = []

    def attach(self, plan: LaunchPlan) -> None:
        """Make the folders, follow the files that the console shows."""
        make_files(plan)
        for worker in plan.workers:
            if self._is_shown(worker):
                self._follow(worker, plan.node_rank)

    def detach(self) -> None:
        """The writers have ended: show what is left of their last lines."""
        for path in self._followed:
            self._console.finish(path)
        self._passing += self._followed
        self._followed = []

    def close(self) -> None:
        """The run is over; the console is somebody else's."""
        self.detach()

    def attempt_dir(self, attempt: int) -> Path | None:
        """Where the files of an attempt are; None when nothing is kept."""
        folder = self._planner.worker_dir(attempt, 0)
        return folder.parent if folder and self._logs["mode"] != "console" else None

    def last_lines(self, attempt: int, local_rank: int) -> list[str]:
        """The last lines of a worker's standard error; none where it went to the terminal."""
        folder = self._planner.worker_dir(attempt, local_rank)
        if folder is None:
            return []
        lines = last_lines(folder / "stderr.log", self._logs["tail_lines"])
        return [line[:_LONGEST_LINE] for line in lines]

    def why_silent(self, attempt: int, local_rank: int) -> str:
        """See :meth:`Outputs.why_silent`."""
        folder = self._planner.worker_dir(attempt, local_rank)
        return why_nothing_is_kept(folder) if folder else ""

    def error_file(self, attempt: int, local_rank: int) -> str:
        """Path of a worker's error file; empty when there is none."""
        folder = self._planner.worker_dir(attempt, local_rank)
        return str(folder / "error.json") if folder and (folder / "error.json").is_file() else ""

    def discard_passing(self) -> None:
        """With ``logs=console`` nothing is kept; to be called when all has been shown."""
        if self._logs["mode"] == "console":
            for path in self._passing:
                path.unlink(missing_ok=True)

    def _is_shown(self, worker: WorkerPlan) -> bool:
        ranks = self._logs["console_ranks"]
        chosen = ranks is None or worker.global_rank in ranks
        return chosen and self._logs["mode"] in ("tee", "console")

    def _follow(self, worker: WorkerPlan, node_rank: int | None) -> None:
        prefix = console_prefix(
            self._logs["prefix"],
            worker,
            role=self._spec.role,
            host=self._host,
            node_rank=node_rank,
        ).encode()
        streams: dict[Literal["stdout", "stderr"], Path | None]
        streams = {"stdout": worker.stdout, "stderr": worker.stderr}
        for stream, path in streams.items():
            if path is not None:
                self._console.follow(path, stream=stream, prefix=prefix)
                self._followed.append(path)

"""From ranks to commands: the launch plan of an attempt."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
from elastic_fsm.launchers.environment import worker_environment
from elastic_fsm.launchers.macros import macros

if TYPE_CHECKING:
    from pathlib import Path

    from elastic_fsm.group import Worker, WorkerGroup, WorkerSpec

__all__ = ["Planner", "command_of", "interpreter", "what_to_run"]


class Planner(NamedTuple):
    """Makes the plan of each attempt; all that stays the same during a run is in here.

    ``node_dir`` holds a folder for each attempt, None keeps nothing on disk. ``log_mode`` is
    ``logs.mode``; ``stop_signals`` are told to the workers, and so is ``timer_file``, where the
    agent reads requests for timers, if it does.
    """

    run_id: str
    node_dir: Path | None
    log_mode: str = "tee"
    stop_signals: tuple[str, ...] = ()
    timer_file: str = ""

    def plan(self, group: WorkerGroup, *, restart_count: int) -> LaunchPlan:
        """The plan for a group whose ranks are known."""
        workers = [self._worker(group, worker, restart_count) for worker in group.workers]
        return LaunchPlan(group.attempt, tuple(workers), group.group_rank)

    def worker_dir(self, attempt: int, local_rank: int) -> Path | None:
        """Where a worker's logs and error file are."""
        if self.node_dir is None:
            return None
        return self.node_dir / f"attempt_{attempt}" / str(local_rank)

    def _worker(self, group: WorkerGroup, worker: Worker, restart_count: int) -> WorkerPlan:
        folder = self.worker_dir(group.attempt, worker.local_rank)
        error_file = None if folder is None else folder / "error.json"
        has_terminal = self.log_mode == "terminal" and worker.local_rank == 0
        to_files = folder is not None and not has_terminal
        return WorkerPlan(
            local_rank=worker.local_rank,
            global_rank=worker.global_rank,
            **what_to_run(group.spec, worker.local_rank),
            env=worker_environment(
                group,
                worker,
                restart_count=restart_count,
                run_id=self.run_id,
                error_file=error_file,
                stop_signals=self.stop_signals,
                timer_file=self.timer_file,
            ),
            cwd=group.spec.cwd,
            stdout=folder / "stdout.log" if folder and to_files else None,
            stderr=folder / "stderr.log" if folder and to_files else None,
            error_file=error_file,
            stdin=has_terminal or worker.local_rank == group.spec.stdin,
        )


def what_to_run(spec: WorkerSpec, local_rank: int) -> dict[str, Any]:
    """The command of a worker, or its function; ``${local_rank}`` is filled in, in text only."""
    if callable(spec.entrypoint):
        args = tuple(macros.substitute(spec.args, str(local_rank)))
        return {"argv": (), "function": spec.entrypoint, "args": args}
    return {"argv": tuple(macros.substitute(command_of(spec), str(local_rank)))}


def interpreter() -> str:
    """The Python of the workers: ours, unless ``PYTHON_EXEC`` names another (as with torchrun)."""
    return os.environ.get("PYTHON_EXEC") or sys.executable


def command_of(spec: WorkerSpec) -> list[str]:
    """The command line of every worker: a ``.py`` file runs under the agent's interpreter."""
    entrypoint = str(spec.entrypoint)
    arguments = [str(argument) for argument in spec.args]
    python = interpreter()
    if spec.module:
        return [python, "-m", entrypoint, *arguments]
    if entrypoint.endswith(".py"):
        return [python, entrypoint, *arguments]
    return [entrypoint, *arguments]

"""The port of a launcher: what is about to start, as data, and the five things asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

__all__ = ["ExitWatcher", "LaunchPlan", "Launcher", "WorkerPlan"]


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker to be started: ``env`` is laid over the agent's own environment.

    It runs the command ``argv`` or, when there is a ``function``, that with ``args``.
    ``stdout`` and ``stderr`` are files to append to, None is the agent's own stream.
    ``stdin`` says whether the worker gets the agent's standard input; else it reads nothing.
    """

    local_rank: int
    global_rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdout: Path | None = None
    stderr: Path | None = None
    error_file: Path | None = None
    stdin: bool = False
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All workers of this node for one attempt; can be printed, and compared in a test."""

    attempt: int
    workers: tuple[WorkerPlan, ...]
    node_rank: int | None = None


class ExitWatcher(Protocol):
    """Tells when a child has ended, without reaping it."""

    def watch(self, pid: int, on_exit: Callable[[int, int], None]) -> None:
        """Call ``on_exit(pid, exit_code)`` once."""
        ...

    def forget(self, pid: int) -> None:
        """Do not call any more."""
        ...


class Launcher(ABC):
    """Starts, signals and reaps workers. Nothing here waits; answers come as events.

    Every event that it posts is marked with the attempt of the plan it was started with.
    """

    @abstractmethod
    def start(self, plan: LaunchPlan) -> None:
        """Start all workers of a plan.

        Answered by ``workers_started`` (``pids`` by local rank). A worker that cannot be
        started counts as one that ended at once: ``worker_exited`` with no ``pid``, 126 or 127
        and a ``reason``; those after it are not started. Every end of a worker is told by
        ``worker_exited`` (``local_rank``, ``pid``, ``exit_code``, ``stopped_by_agent``).
        """

    @abstractmethod
    def stop(self, attempt: int, signal: str, grace: float | None) -> None:
        """Send ``signal`` to all workers and what they started, SIGKILL after ``grace`` seconds.

        Answered by exactly one ``workers_stopped`` when nothing of the attempt is left and
        everything has been reaped, also when nothing was alive, or by ``workers_stuck``
        (``pids``). ``caught`` names the signals that workers had handlers for which failed by
        themselves with an ordinary code; None says that the launcher cannot tell, and makes a
        machine doubt the failure. A stop that is asked for during another joins it.
        """

    @abstractmethod
    def signal(self, signal: str, local_rank: int | None = None, *, why: str = "") -> int:
        """Send ``signal`` to the groups of all workers that run, or of one; nothing is stopped.

        ``why`` is the ``reason`` of a worker that this signal ends. Returns how many workers
        were reached; one that has ended is not an error.
        """

    @abstractmethod
    def kill(self) -> None:
        """Cut the grace of the stop under way short; does nothing when there is none."""

    @abstractmethod
    def close(self) -> list[int]:
        """Kill and reap whatever is left, waiting a few seconds at most.

        Returns the pids of those that could not be ended; calling it again does nothing.
        """

    def return_values(self) -> dict[int, Any]:
        """What the functions of the last attempt returned, by local rank; kept after closing."""
        return {}

    def exceptions(self) -> dict[int, BaseException]:
        """What the functions of the last attempt raised, by local rank, where it could be sent."""
        return {}

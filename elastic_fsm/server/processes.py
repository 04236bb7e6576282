"""Processes without an agent: ``start_processes`` of ``torch.distributed.elastic.multiprocessing``.

A blocking front of the launcher that the agents use: sessions, guardian, orphans and logs are
the same. Nothing polls; a wait ends when a worker does.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import ProcessFailure
from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
from elastic_fsm.launchers.functions import check_function
from elastic_fsm.logs.files import last_lines
from elastic_fsm.server.crew import Crew
from elastic_fsm.server.stop_signals import StopSignals
from elastic_fsm.server.teeing import Teeing
from elastic_fsm.sources.exits import exit_status
from elastic_fsm.spec_checks import check_env

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.failures import SignalException
    from elastic_fsm.logs.specs import LogsSpecs

__all__ = [
    "MultiprocessContext",
    "PContext",
    "RunProcsResult",
    "SubprocessContext",
    "refuse_numa_options",
    "start_processes",
]

_TAIL_LINES = 20


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    duplicate_stdout_filters: Sequence[str] | None = None,
    duplicate_stderr_filters: Sequence[str] | None = None,
    *,
    cwd: str | None = None,
) -> PContext:
    """Start one process for each entry of ``args``, by local rank, and return what holds them.

    ``entrypoint`` is a program or a function; ``envs`` is laid over this process's environment.
    ``start_method`` (spawn, fork, forkserver) is for functions. Lines of teed streams that hold
    one of the ``duplicate_*_filters`` are copied to a file for each stream. ``cwd`` is where the
    processes start, None: where this one is.

    Raises ``RuntimeError`` unless ``args`` and ``envs`` are for the local ranks 0 to n-1,
    ``ValueError`` for a function that cannot be handed to another process, for any
    ``numa_options`` and other values that cannot work, ``OSError`` when a process cannot be
    started; nothing is left running then.
    """
    refuse_numa_options(numa_options)
    context: PContext
    given = (name, entrypoint, args, envs, logs_specs, log_line_prefixes)
    filters = (duplicate_stdout_filters, duplicate_stderr_filters)
    if not (isinstance(entrypoint, str) or callable(entrypoint)):
        raise ValueError(f"entrypoint must name a program or be a function, not {entrypoint!r}")
    if isinstance(entrypoint, str):
        context = SubprocessContext(*given, *filters)
    else:
        context = MultiprocessContext(*given, *filters, start_method)
    context.cwd = cwd
    context.start()
    return context


def refuse_numa_options(options: Any) -> None:
    """Raises ``ValueError`` for any: who asks for a binding must not run without it."""
    if options is not None:
        raise ValueError("numa_options is not offered; bind workers with numactl in the command")


@dataclass
class RunProcsResult:
    """How processes ended, by local rank; ``stdouts`` and ``stderrs`` are paths, empty for the
    console. Those that were stopped because another failed are in neither map."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether any failed."""
        return bool(self.failures)


class PContext:
    """A set of processes that was started together.

    May be set before the start: ``cwd``, where they start. Before they end: ``grace``, the seconds
    from SIGTERM to SIGKILL for those that are stopped because another failed, and ``before_stop``,
    which is called before that, while all of them still have their pids.
    """

    _launcher = "subprocess"

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        duplicate_stdout_filters: Sequence[str] | None = None,
        duplicate_stderr_filters: Sequence[str] | None = None,
        start_method: str = "spawn",
    ) -> None:
        _check_ranks("args", args, max(1, len(args)))
        _check_ranks("envs", envs, len(args))
        for rank in args:
            if not isinstance(args[rank], list | tuple):
                raise ValueError(f"args[{rank}] must be a tuple, not {args[rank]!r}")
            check_env(f"envs[{rank}]", envs[rank])
        self.name = name
        self.entrypoint = entrypoint
        self.args = args
        self.envs = envs
        self.nprocs = len(args)
        self.start_method = start_method
        self.cwd: str | None = None
        self.grace = 30.0
        self.before_stop: Callable[[], object] = lambda: None
        self._check()
        logs = logs_specs.reify(envs)
        _check_ranks("stdouts", logs.stdouts, self.nprocs)
        _check_ranks("stderrs", logs.stderrs, self.nprocs)
        self.stdouts = logs.stdouts
        self.stderrs = logs.stderrs
        self.error_files = logs.error_files
        self._teeing = Teeing()
        self._teed = (
            logs,
            {rank: f"[{name}{rank}]:" for rank in args} | (log_line_prefixes or {}),
            duplicate_stdout_filters or (),
            duplicate_stderr_filters or (),
        )
        self._crew: Crew | None = None
        self._result: RunProcsResult | None = None
        self._signals = StopSignals(self._interrupt)

    def start(self) -> None:
        """Start the processes; in the main thread, stop signals raise ``SignalException`` from
        now on until :meth:`close`. Raises ``RuntimeError`` when they were started before."""
        if self._crew is not None:
            raise RuntimeError("these processes were started before")
        self._crew = Crew(
            LaunchPlan(0, tuple(map(self._plan, range(self.nprocs)))),
            launcher=self._launcher,
            start_method=self.start_method,
        )
        self._signals.take()
        try:
            with self._signals.in_one_piece():
                self._teeing.attach(*self._teed)
                self._crew.start()
        except BaseException:
            self.close()
            raise

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until one process fails, which stops the others, or all are done.

        None when that is not so within ``timeout`` seconds (0: only look; negative: wait for
        ever). ``period`` is torch's and means nothing: nobody polls.
        """
        if self._result is None and self._crew is not None:
            with self._signals.in_one_piece():
                if self._crew.wait(None if timeout < 0 else timeout):
                    self.before_stop()
                    self._crew.stop(signal.SIGTERM, self.grace)
                    self._result = self._make_result(self._crew, self._crew.failed)
            if self._result is not None:
                self.close()
        return self._result

    def pids(self) -> dict[int, int]:
        """By local rank; also of those that have ended."""
        return {} if self._crew is None else dict(self._crew.pids)

    def close(self, death_sig: signal.Signals | None = None, timeout: float = 30) -> None:
        """Stop who still runs with ``death_sig`` (SIGTERM), after ``timeout`` seconds with SIGKILL,
        and give everything back; calling it again does nothing.

        Should nobody have waited for the result before, those that were stopped count as failed.
        """
        if self._crew is None:
            return
        try:
            with self._signals.in_one_piece():
                if not self._crew.is_closed:
                    self._crew.stop(signal.Signals(death_sig or signal.SIGTERM), timeout)
                if self._result is None:
                    self._result = self._make_result(self._crew, self._crew.ended_badly)
                self._crew.close()
                self._teeing.close()
        finally:
            self._signals.give_back()

    def _check(self) -> None:
        """Raise ``ValueError`` for what cannot be started."""

    def _plan(self, rank: int) -> WorkerPlan:
        return WorkerPlan(
            rank,
            int(self.envs[rank].get("RANK", rank)),
            (str(self.entrypoint), *map(str, self.args[rank])),
            self.envs[rank],
            cwd=self.cwd,
            stdout=_path(self.stdouts[rank]),
            stderr=_path(self.stderrs[rank]),
        )

    def _make_result(self, crew: Crew, failed: Mapping[int, Mapping[str, Any]]) -> RunProcsResult:
        failures = {rank: self._failure(crew, end) for rank, end in failed.items()}
        values = {} if failures else {rank: crew.return_values.get(rank) for rank in crew.ended}
        return RunProcsResult(values, failures, self.stdouts, self.stderrs)

    def _failure(self, crew: Crew, end: Mapping[str, Any]) -> ProcessFailure:
        rank = end["local_rank"]
        error_file = self.error_files.get(rank, "")
        stderr = _path(self.stderrs[rank])
        return ProcessFailure(
            local_rank=rank,
            pid=end["pid"],
            exitcode=end["exit_code"],
            error_file=error_file if os.path.isfile(error_file) else "",
            reason=end["reason"],
            stderr_tail=last_lines(stderr, _TAIL_LINES) if stderr else [],
            exception=crew.exceptions.get(rank),
        )

    def _interrupt(self, error: SignalException) -> None:
        if self._crew is not None:
            self._crew.interrupt(error)


class MultiprocessContext(PContext):
    """Processes that each run a function."""

    _launcher = "multiprocessing"

    def _check(self) -> None:
        assert callable(self.entrypoint)
        for args in self.args.values():
            check_function(self.entrypoint, args, start_method=self.start_method)

    def _plan(self, rank: int) -> WorkerPlan:
        assert callable(self.entrypoint)
        return WorkerPlan(
            rank,
            int(self.envs[rank].get("RANK", rank)),
            (),
            self.envs[rank],
            cwd=self.cwd,
            stdout=_path(self.stdouts[rank]),
            stderr=_path(self.stderrs[rank]),
            function=self.entrypoint,
            args=tuple(self.args[rank]),
        )


@dataclass
class _Process:
    """What torch shows of a process as its ``Popen``."""

    pid: int

    def poll(self) -> int | None:
        """The exit code of one that has ended; nothing is reaped."""
        with suppress(ChildProcessError):
            return exit_status(self.pid)
        return None


@dataclass
class _Handler:
    """What torch shows of a process that was started."""

    local_rank_id: int
    proc: _Process

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Signal its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.proc.pid, death_sig or signal.SIGTERM)


class SubprocessContext(PContext):
    """Processes that each run a program."""

    @property
    def subprocess_handlers(self) -> dict[int, _Handler]:
        """By local rank; ``.proc.pid`` is what others read."""
        return {rank: _Handler(rank, _Process(pid)) for rank, pid in self.pids().items()}


def _check_ranks(what: str, given: Mapping[int, Any], count: int) -> None:
    if not hasattr(given, "keys") or set(given) != set(range(count)):
        raise RuntimeError(
            f"{what} must be for the local ranks 0 to {count - 1}, not for {sorted(given)}"
        )


def _path(text: str) -> Path | None:
    return Path(text) if text else None

"""``LocalElasticAgent``: workers that are processes of this machine, programs or functions.

It runs on the machines, launchers and sources of ``elastic-fsm run``, where nothing polls and
nothing blocks. A subclass that overrides a lifecycle method wants that method to be called: it
runs on the coarse machine, like every :class:`SimpleElasticAgent`, with the methods below.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elastic_fsm.group import RunResult, WorkerState
from elastic_fsm.server.api import DEFAULT_ROLE
from elastic_fsm.server.simple import SimpleElasticAgent
from elastic_fsm.telemetry.events import EventSource
from elastic_fsm.timer import TIMER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from elastic_fsm.group import WorkerGroup, WorkerSpec
    from elastic_fsm.health import HealthCheckServer
    from elastic_fsm.launchers.base import Launcher
    from elastic_fsm.logs.specs import LogsSpecs
    from elastic_fsm.loop import Loop
    from elastic_fsm.rendezvous.errors import RendezvousError
    from elastic_fsm.server.processes import PContext, RunProcsResult
    from elastic_fsm.server.watch_thread import WatchThread
    from elastic_fsm.sources.timers import FileTimerRequest, FileTimers

__all__ = ["LocalElasticAgent"]

_LIFECYCLE = (
    "_initialize_workers",
    "_restart_workers",
    "_rendezvous",
    "_assign_worker_ranks",
    "_exit_barrier",
    "_start_workers",
    "_stop_workers",
    "_monitor_workers",
    "_shutdown",
    "_setup_local_watchdog",
)
"""Who overrides one of these takes part in the lifecycle, and has to be called."""


class LocalElasticAgent(SimpleElasticAgent):
    """Runs the spec's entrypoint in ``local_world_size`` processes of this machine.

    ``logs_specs`` say where the workers' output goes (by default to the console);
    ``start_method`` (spawn, fork, forkserver) is for functions; ``log_line_prefix_template``
    stands before the lines of teed output and knows ``${role_name}``, ``${rank}`` and
    ``${local_rank}``. ``health_check_server`` is started and stopped around the run, in place of
    the one that ``TORCHELASTIC_HEALTH_CHECK_PORT`` asks for; a worker that stays longer than
    ``uninterruptible_state_timeout`` seconds in uninterruptible sleep (by default what
    ``TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT`` says, 0: for ever) is ended. Timeouts,
    ``overrides`` and ``job_file`` are those of :class:`SimpleElasticAgent`, but that a job file
    holds the timeouts, too; ``machine=fail_fast`` chooses another lifecycle. ``launcher`` makes a
    launcher of the user's own for the loop of a run; then ``start_method`` and the group
    ``launcher`` of the configuration mean nothing. Raises
    ``ValueError`` where a subclass takes part in the lifecycle: that starts its own workers; and
    for a ``cwd`` of the spec that is no folder.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs_specs: LogsSpecs | None = None,
        start_method: str = "spawn",
        exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None,
        shutdown_timeout: float = 30,
        health_check_server: HealthCheckServer | None = None,
        uninterruptible_state_timeout: float | None = None,
        *,
        overrides: Sequence[str] = (),
        job_file: str | Path | None = None,
        launcher: Callable[[Loop], Launcher] | None = None,
    ) -> None:
        super().__init__(
            spec, exit_barrier_timeout, shutdown_timeout, overrides=overrides, job_file=job_file
        )
        from elastic_fsm.logs.specs import DefaultLogsSpecs
        from elastic_fsm.watchdogs import sleep_limit

        _check_has("reify", logs_specs=logs_specs)
        _check_has("start", health_check_server=health_check_server)
        _check_has("format", log_line_prefix_template=log_line_prefix_template)
        self._start_method = start_method
        self._logs_specs = DefaultLogsSpecs() if logs_specs is None else logs_specs
        self._log_line_prefix_template = log_line_prefix_template
        self._pcontext: PContext | None = None
        self._health_check_server = health_check_server
        self._uninterruptible_state_timeout = sleep_limit(uninterruptible_state_timeout)
        self._timers: FileTimers | None = None
        self._worker_watchdog: FileTimers | WatchThread | None = None
        self._answers_probes = False
        self._rendezvous_error: RendezvousError | None = None
        self._is_alone = spec.rdzv_handler is None
        if launcher is None:  # a launcher of the user's own may have folders elsewhere
            _check_folder(spec.cwd)
        self._launcher = launcher
        if launcher is not None and self._is_coarse:
            raise ValueError(
                f"{type(self).__name__} overrides methods of the lifecycle, which use no launcher; "
                "leave the argument launcher out"
            )

    @property
    def _is_coarse(self) -> bool:
        """Whether a subclass, or a method set in the object, takes part in the lifecycle."""
        return any(
            name in vars(self) or getattr(type(self), name) is not getattr(LocalElasticAgent, name)
            for name in _LIFECYCLE
        )

    def _defaults(self) -> list[str]:
        """See :meth:`SimpleElasticAgent._defaults`."""
        if self._is_coarse or self._job_file is not None:
            return super()._defaults()
        return [
            f"stop.grace={self._shutdown_timeout}",
            f"rendezvous.barrier_timeout={self._exit_barrier_timeout}",
            "rendezvous.join_timeout=null",  # handlers have their own
        ]

    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """See :meth:`SimpleElasticAgent.run`. What was started beside the workers ends with it."""
        try:
            return super().run(role)
        finally:
            self._stop_watchdog()
            self._end_health_check()

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the full machine or, for a subclass that takes part, the coarse one."""
        if self._is_coarse:
            return super()._invoke_run(role)
        from elastic_fsm.server.full import run_full

        return run_full(self, self._setup, self._interrupts)

    # -- health and timers ---------------------------------------------------------------------

    def _setup_healthcheck(self) -> None:
        """Start the server that was given to the agent, else the one that the environment asks
        for. Called when a run begins; in a loop of a subclass's own, when workers are started.

        A subclass that overrides it makes ``_health_check_server`` itself; it is stopped when the
        run ends. Raises ``ValueError`` for a port that is none, ``OSError`` for one that is taken.
        """
        if self._health_check_server is None:
            self._health_check_server = _asked_for(self)
        if self._health_check_server is not None:
            self._health_check_server.start()

    def _begin_health_check(self) -> None:
        """Once: it goes on while workers are restarted, for that may take its time; unless a
        subclass ends it then, as torch does."""
        if not self._answers_probes or self._health_check_server is None:
            self._answers_probes = True
            self._setup_healthcheck()

    def _end_health_check(self) -> None:
        was_begun, self._answers_probes = self._answers_probes, False
        if was_begun and self._health_check_server is not None:
            self._health_check_server.stop()

    def _setup_local_watchdog(self, envs: dict[int, dict[str, str]]) -> None:
        """Tell the workers to be started, by their environments, where the agent reads requests
        for timers, if it does."""
        if self._interrupts.engine_serves:
            self._worker_watchdog = self._timers
        else:
            self._watch_beside_own_loop()
        if self._worker_watchdog is not None and self._worker_watchdog.path:
            for env in envs.values():
                env.setdefault(TIMER_FILE, self._worker_watchdog.path)

    def _watch_beside_own_loop(self) -> None:
        """Begin anew, for the workers of one start."""
        from elastic_fsm.server.watch_thread import WatchThread

        self._stop_watchdog()
        self._ended_workers.clear()
        watch = WatchThread(self)
        if watch.is_asked_for:
            self._worker_watchdog = watch  # first: a stop signal may raise at any moment
            watch.start()

    def _stop_watchdog(self) -> None:
        if self._worker_watchdog is not None:
            self._worker_watchdog.stop()
            self._worker_watchdog = None

    def _log_watchdog_event(self, name: str, request: FileTimerRequest | None) -> None:
        """Record that a timer expired, or that a worker was ended for it."""
        event = self._construct_event("RUNNING", EventSource.AGENT)
        event.name = name
        details = {"watchdog_event": name}
        if request is not None:
            details |= {key: str(value) for key, value in asdict(request).items()}
        event.metadata |= {
            "hostname": self._get_fq_hostname(),
            "metadata": json.dumps(details),
        }
        self._record(event)

    def _get_fq_hostname(self) -> str:
        """The name of this host, with its domain where that is known."""
        return socket.getfqdn(socket.gethostname())

    # -- on the coarse machine -----------------------------------------------------------------

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start the processes; the ids are their pids."""
        from elastic_fsm.server.local_start import start_group

        self._pcontext = start_group(self, worker_group)
        return self._pcontext.pids()

    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:
        """The same grace as everywhere. ``is_restart`` is of some versions of torch, and means
        nothing here: a restart never closes the rendezvous."""
        self._shutdown(timeout=self._shutdown_timeout)

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Look once; when a worker has failed the others are stopped.

        UNKNOWN when the processes are not those that the group was started with.
        """
        if self._pcontext is None:
            return RunResult(WorkerState.UNKNOWN)
        ids = {worker.id for worker in worker_group.workers}
        if ids != set(self._pcontext.pids().values()):
            return RunResult(WorkerState.UNKNOWN)
        ended = self._pcontext.wait(0)
        if ended is None:
            return RunResult(WorkerState.HEALTHY)
        result = _result(worker_group, ended)
        self._ended_workers.explain(result)
        return result

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        """See :meth:`SimpleElasticAgent._shutdown`."""
        self._stop_watchdog()
        if self._pcontext is not None:
            self._pcontext.close(death_sig, timeout)


def _asked_for(owner: LocalElasticAgent) -> HealthCheckServer | None:
    """The health check of the environment, for an agent whose methods may block: it is alive
    all the while."""
    from elastic_fsm.watchdogs import health_address

    address = health_address()
    if address is None:
        return None
    from elastic_fsm.health import ALIVE_FOR, HealthCheckServer

    host, port = address
    group = owner._worker_group
    return HealthCheckServer(
        time.time, port, ALIVE_FOR, host=host, describe=lambda: {"worker_state": group.state.value}
    )


def _check_folder(cwd: str | None) -> None:
    if cwd is not None and not os.path.isdir(cwd):
        raise ValueError(f"cwd: there is no folder {cwd!r}")


def _check_has(method: str, **given: Any) -> None:
    """Raises ``TypeError`` for an argument that is none of its kind."""
    for name, value in given.items():
        if value is not None and not hasattr(value, method):
            raise TypeError(f"{name} must have a method {method}(); {value!r} has none")


def _result(group: WorkerGroup, ended: RunProcsResult) -> RunResult:
    """By global rank what the processes tell by local rank."""
    ranks = {worker.local_rank: worker.global_rank for worker in group.workers}
    if ended.is_failed():
        failures = {ranks[local]: failure for local, failure in ended.failures.items()}
        return RunResult(WorkerState.FAILED, failures=failures)
    values = {ranks[local]: value for local, value in ended.return_values.items()}
    return RunResult(WorkerState.SUCCEEDED, return_values=values)

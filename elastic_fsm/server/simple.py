"""``SimpleElasticAgent``: the loop, given four methods that start, stop, watch and clean up.

The loop is the machine ``coarse``, run by the same engine as everything else; its actions call
the methods below at the points where ``torch.distributed.elastic`` (2.13) calls them, so that a
subclass written for it may override any.
"""

from __future__ import annotations

import logging
import signal
import time
import traceback
from abc import abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import is_told_to_stop
from elastic_fsm.group import RunResult, Worker, WorkerGroup, WorkerSpec, WorkerState
from elastic_fsm.rendezvous.errors import RendezvousGracefulExitError, is_kind
from elastic_fsm.server.api import DEFAULT_ROLE, ElasticAgent
from elastic_fsm.server.ended_workers import EndedWorkers
from elastic_fsm.server.interrupts import Interrupts
from elastic_fsm.server.membership import Membership
from elastic_fsm.spec_checks import check_seconds
from elastic_fsm.telemetry.events import Event, EventSource, get_logging_handler, record
from elastic_fsm.telemetry.metrics import put_metric
from elastic_fsm.telemetry.records import emit_worker_ends, status_record, worker_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.graph import Drawing
    from elastic_fsm.server.setup import Setup

__all__ = ["SimpleElasticAgent"]

log = logging.getLogger(__name__)


class SimpleElasticAgent(ElasticAgent):
    """Runs one group of workers through four methods that a subclass supplies.

    ``exit_barrier_timeout`` is the longest wait in seconds, at the end, for nodes that still
    work; ``shutdown_timeout`` is the time in seconds from the signal that stops the workers to
    SIGKILL. ``overrides`` are those of the command line (``machine=mine``, ``run_dir=/data``);
    they choose the machine, the stop signals and the place of the journal. ``job_file`` is a YAML
    file that does so: it names its machine, and its own rules may stand beside it.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        exit_barrier_timeout: float = 300,
        shutdown_timeout: float = 30,
        *,
        overrides: Sequence[str] = (),
        job_file: str | Path | None = None,
    ) -> None:
        if not isinstance(spec, WorkerSpec):
            raise TypeError(f"spec must be an elastic_fsm.WorkerSpec, not {spec!r}")
        check_seconds("exit_barrier_timeout", exit_barrier_timeout)
        check_seconds("shutdown_timeout", shutdown_timeout)
        if isinstance(overrides, str):
            raise TypeError(f"overrides must be a list of texts, not {overrides!r}")
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts = spec.max_restarts
        self._store: Any = None
        self._exit_barrier_timeout = exit_barrier_timeout
        self._shutdown_timeout = shutdown_timeout
        self._total_execution_time = 0
        self._in_exit_barrier = False
        self._membership = Membership()
        self._ended_workers = EndedWorkers()
        self._is_cut_off = False
        self._overrides = tuple(overrides)
        self._job_file = None if job_file is None else Path(job_file)
        self._interrupts = Interrupts(())
        self._setup_done: Setup | None = None

    @property
    def _setup(self) -> Setup:
        """The checked configuration; made when it is first needed, for it loads Hydra."""
        if self._setup_done is None:
            from elastic_fsm.server.setup import Setup

            overrides = [*self._defaults(), *self._overrides]
            self._setup_done = Setup.of(overrides, self._job_file, coarse=self._is_coarse)
        return self._setup_done

    @property
    def machine(self) -> Drawing:
        """The lifecycle of its runs: a picture in a notebook, else text.

        Raises :class:`BadInput` for overrides that do not make a machine.
        """
        from elastic_fsm.graph import machine_diagram

        return machine_diagram(self._setup.machine())

    @property
    def _is_coarse(self) -> bool:
        """Whether the machine's actions are the methods below."""
        return True

    def _defaults(self) -> list[str]:
        """Overrides that come before the user's own; a job file chooses its machine itself."""
        return ["machine=coarse"] if self._job_file is None else []

    @property
    def _rdzv_handler(self) -> Any:
        """How the nodes meet; where the spec names nothing, this node is alone."""
        spec = self._worker_group.spec
        if spec.rdzv_handler is None:
            from elastic_fsm.rendezvous.single import SingleNodeHandler
            from elastic_fsm.rundir import new_run_id

            spec.rdzv_handler = SingleNodeHandler(new_run_id(), spec.local_addr)
        return spec.rdzv_handler

    @_rdzv_handler.setter
    def _rdzv_handler(self, handler: Any) -> None:
        self._worker_group.spec.rdzv_handler = handler

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """See :meth:`ElasticAgent.get_worker_group`; there is one role only."""
        return self._worker_group

    # -- what a subclass supplies --------------------------------------------------------------

    @abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start all workers of the group; returns their ids by local rank."""

    @abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """Stop all workers, whatever they are doing; also when none was ever started."""

    @abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Look at the workers.

        The state of the result says what is next: HEALTHY (go on), SUCCEEDED (all ended with
        0), FAILED or UNHEALTHY (restart, or give up). Any other is an error.
        """

    @abstractmethod
    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: float = 30) -> None:
        """Stop what is left with ``death_sig``, SIGKILL it after ``timeout`` seconds.

        Called at the end of every run, and perhaps before; a second call must do no harm.
        """

    # -- the run -------------------------------------------------------------------------------

    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """See :meth:`ElasticAgent.run`.

        Raises :class:`~elastic_fsm.SignalException` when a stop signal ended the run, and
        whatever a method of a subclass raised.
        """
        get_logging_handler(self._worker_group.spec.event_log_handler)  # a ValueError: no such sink
        began = time.monotonic()
        with Interrupts(self._setup.stop_signals) as self._interrupts:
            try:
                result = self._invoke_run(role)
                self._total_execution_time = int(time.monotonic() - began)
                self._record_metrics(result)
                self._record_worker_events(result)
                return result
            except Exception as error:
                if is_kind(error, RendezvousGracefulExitError):  # in a loop of a subclass's own
                    self._worker_group.state = WorkerState.SUCCEEDED
                    return RunResult(WorkerState.SUCCEEDED)
                if is_told_to_stop(error):
                    self._shut_down_by(signal.Signals(error.sigval))  # type: ignore[attr-defined]
                raise
            finally:
                self._shutdown(timeout=self._shutdown_timeout)
                self._total_execution_time = int(time.monotonic() - began)

    def _shut_down_by(self, number: signal.Signals) -> None:
        """Told to stop: the workers get the same signal."""
        log.warning("told to stop by %s, shutting down", number.name)
        self._shutdown(number, timeout=self._shutdown_timeout)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the machine; a subclass that overrides this brings a loop of its own."""
        from elastic_fsm.server.coarse import run_coarse

        return run_coarse(self, self._setup, self._interrupts)

    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        """Find ranks, then start the workers with them; the group is HEALTHY from here."""
        self._rendezvous(worker_group)
        for local_rank, worker_id in self._start_workers(worker_group).items():
            worker = worker_group.workers[local_rank]
            worker.id = worker_id
            self._emit("START", EventSource.WORKER, worker)
        worker_group.state = WorkerState.HEALTHY

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """Stop the workers, find ranks, start them anew."""
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Meet the other nodes, and fill in the group: ranks, addresses, the round's store."""
        from elastic_fsm.rendezvous.abandonable import call_abandonable
        from elastic_fsm.rendezvous.lost_store import naming_store

        spec = worker_group.spec
        self._membership.end("joins the next round")
        with self.record_duration("RENDEZVOUS"), naming_store(self._store):
            info = call_abandonable(self._rdzv_handler.next_rendezvous)
        self._store = worker_group.store = info.store
        with naming_store(info.store):
            # Before the ranks: a newcomer waits, inside of torch, until node 0 has said this.
            address, port = self._membership.agree_on_meeting_place(
                info, spec, self._rdzv_handler, self._shutdown_timeout
            )
            with self.record_duration("ASSIGN_WORKER_RANKS"):
                worker_group.workers = self._assign_worker_ranks(
                    info.store, info.rank, info.world_size, spec
                )
        worker_group.group_rank = info.rank
        worker_group.group_world_size = info.world_size
        worker_group.master_addr = spec.master_addr or address
        worker_group.master_port = spec.master_port or port

    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        """The workers of this node with their ranks, agreed on through the round's store."""
        from elastic_fsm.rendezvous.ranks_over_store import exchange_ranks

        return exchange_ranks(store, group_rank, group_world_size, spec)

    def _exit_barrier(self) -> None:
        """Wait for the other nodes, so that nobody takes this one's end for a loss.

        A node that is late, or a store that fails, does not turn this node's success into a
        failure: both are logged.
        """
        from elastic_fsm.rendezvous.barrier_over_store import pass_exit_barrier

        nodes = self._worker_group.group_world_size or 1
        self._in_exit_barrier = True
        try:
            pass_exit_barrier(
                self._store, nodes, self._exit_barrier_timeout, meanwhile=self._membership.beat
            )
        except Exception as error:
            if is_told_to_stop(error):
                raise
            log.warning("the other nodes were not waited for: %s: %s", type(error).__name__, error)
            self._membership.rest()
        finally:
            self._in_exit_barrier = False

    def _why_reform(self) -> str:
        """Why the nodes should meet anew: some wait to take part, or one has left the round.

        A store in trouble is no reason, for workers may run well without it: that is warned of
        once, until it is over.
        """
        from elastic_fsm.rendezvous.lost_store import explain_with

        try:
            reason = self._look_at_round()
        except Exception as error:
            if is_told_to_stop(error):
                raise
            if not self._is_cut_off:
                told = explain_with(self._store, error)
                log.warning("the rendezvous cannot be watched: %s", told)
            self._is_cut_off = True
            return ""
        self._is_cut_off = False
        return reason

    def _look_at_round(self) -> str:
        """After each look at the workers, and so the place for a sign of life."""
        waiting = self._rdzv_handler.num_nodes_waiting()
        if waiting > 0:
            return f"nodes that wait to join: {waiting}"
        self._membership.beat()
        return self._membership.why_ended()

    def _describe_group(self) -> dict[str, Any]:
        """What the journal says of a group that was started."""
        group = self._worker_group
        return {
            "group_rank": group.group_rank,
            "group_world_size": group.group_world_size,
            "ranks": [worker.global_rank for worker in group.workers],
            "ids": [str(worker.id) for worker in group.workers],
        }

    # -- event records and metrics -------------------------------------------------------------

    def _record(self, event: Event) -> None:
        record(event, self._worker_group.spec.event_log_handler)

    @contextmanager
    def record_duration(self, state: str) -> Iterator[None]:
        """Record an event of the agent that says how long the block took."""
        began = time.perf_counter()
        try:
            yield
        finally:
            took = (time.perf_counter() - began) * 1000
            self._emit(state, EventSource.AGENT, duration_ms=took)

    def get_event_failed(self) -> Event:
        """The agent failed: a record with the exception that is being handled."""
        error = traceback.format_exc()
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=error)

    def get_event_succeeded(self) -> Event:
        """The agent did its work, whatever became of the workers."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    def _construct_event(
        self,
        state: str,
        source: EventSource,
        worker: Worker | None = None,
        raw_error: str | None = None,
        duration_ms: float | None = None,
        exit_code: int | None = None,
        worker_pid: int | None = None,
    ) -> Event:
        """A record of the agent or, with ``worker``, of one of its workers."""
        return status_record(
            state,
            source,
            self._worker_group,
            worker,
            run_id=self._rdzv_handler.get_run_id(),
            backend=self._rdzv_handler.get_backend(),
            restarts=self._worker_group.spec.max_restarts - self._remaining_restarts,
            total_run_time=self._total_execution_time,
            raw_error=raw_error,
            duration_ms=duration_ms,
            exit_code=exit_code,
            worker_pid=worker_pid,
        )

    def _emit(self, *arguments: Any, **more: Any) -> None:
        self._record(self._construct_event(*arguments, **more))

    def _record_worker_events(self, result: RunResult) -> None:
        """One record for each worker: how it ended."""
        emit_worker_ends(self._worker_group, result, self._emit, self._get_worker_state)

    def _get_worker_state(self, worker: Worker, result: RunResult) -> str:
        """SUCCEEDED, FAILED or, of one that the agent stopped, TERMINATED."""
        return worker_end(worker, result)

    def _put_state_metrics(self, state: WorkerState) -> None:
        """After each look at the workers."""
        role = self._worker_group.spec.role
        put_metric(f"workers.{role}.remaining_restarts", self._remaining_restarts)
        put_metric(f"workers.{role}.{state.value.lower()}", 1)

    def _record_metrics(self, group_results: RunResult) -> None:
        """How the run ended, and with how many restarts."""
        spec = self._worker_group.spec
        failed = group_results.is_failed()
        restarted = self._remaining_restarts != spec.max_restarts
        self._record_flakiness_metric(failed)
        put_metric(f"workers.{spec.role}.run_total", 1)
        for name, holds in (
            ("run_success_with_retries", not failed and restarted),
            ("run_success_no_retries", not failed and not restarted),
            ("run_failed_with_retries", failed and restarted),
            ("run_failed_no_retries", failed and not restarted),
        ):
            self._record_metric_with_condition(name, holds)

    def _record_metric_with_condition(self, metric_name: str, condition: bool) -> None:
        """1 where it holds, else 0."""
        put_metric(f"workers.{self._worker_group.spec.role}.{metric_name}", int(condition))

    def _record_flakiness_metric(self, is_failed: bool = False) -> None:
        """100 for a run that failed, else the part of the budget in percent that it took."""
        spec = self._worker_group.spec
        left = (self._remaining_restarts + 1) / (spec.max_restarts + 1)
        flakiness = 100 if is_failed else int(100 - 100 * left)
        put_metric(f"workers.{spec.role}.flakiness", flakiness)

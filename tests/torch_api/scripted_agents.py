"""Agents without a single process, for the tests of the Python API."""

from __future__ import annotations

import signal

from elastic_fsm.failures import ProcessFailure
from elastic_fsm.group import RunResult, WorkerState
from elastic_fsm.rendezvous.handler import RendezvousHandler, RendezvousInfo
from elastic_fsm.rendezvous.single import SingleNodeHandler
from elastic_fsm.server.simple import SimpleElasticAgent

HEALTHY = RunResult(WorkerState.HEALTHY)
DONE = RunResult(WorkerState.SUCCEEDED, return_values={0: None, 1: None})


def failed(rank: int = 1, code: int = 3, state: WorkerState = WorkerState.FAILED) -> RunResult:
    return RunResult(state, failures={rank: ProcessFailure(rank, 100 + rank, code)})


class Handler(RendezvousHandler):
    """One node; ``waiting`` are the answers to ``num_nodes_waiting``, one after the other."""

    def __init__(self, waiting=(), trace=None):
        self._single = SingleNodeHandler()
        self._waiting = list(waiting)
        self._trace = [] if trace is None else trace

    def next_rendezvous(self) -> RendezvousInfo:
        self._trace.append("next_rendezvous")
        return self._single.next_rendezvous()

    def num_nodes_waiting(self) -> int:
        return self._waiting.pop(0) if self._waiting else 0

    def get_backend(self) -> str:
        return "test"

    def get_run_id(self) -> str:
        return "run"

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        self._trace.append("set_closed")

    def shutdown(self) -> bool:
        return True


class Scripted(SimpleElasticAgent):
    """Its workers are numbers; ``looks`` are what ``_monitor_workers`` finds, in order.

    ``trace`` holds the calls of the four methods that a subclass must supply.
    """

    def __init__(self, spec, looks, **options):
        super().__init__(spec, **options)
        self.looks = list(looks)
        self.trace = spec.rdzv_handler._trace
        self.starts = 0

    def _start_workers(self, worker_group):
        self.trace.append("_start_workers")
        self.starts += 1
        return {w.local_rank: 100 * self.starts + w.local_rank for w in worker_group.workers}

    def _stop_workers(self, worker_group):
        self.trace.append("_stop_workers")

    def _monitor_workers(self, worker_group):
        self.trace.append("_monitor_workers")
        look = self.looks.pop(0)
        return look() if callable(look) else look

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        self.trace.append(f"_shutdown({signal.Signals(death_sig).name})")

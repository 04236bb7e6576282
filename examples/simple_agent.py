"""A SimpleElasticAgent over plain ``subprocess``: four methods, and the base class does the rest.

It runs a command in two workers; restarts, the exit barrier, event records and the journal come
from the base class.

    python examples/simple_agent.py -- sh -c 'echo rank $RANK of $WORLD_SIZE'
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

from elastic_fsm import (
    ProcessFailure,
    RunResult,
    SignalException,
    SimpleElasticAgent,
    WorkerSpec,
    WorkerState,
)


class SubprocessAgent(SimpleElasticAgent):
    """Its workers are children of this process, one for each local rank."""

    _children: dict[int, subprocess.Popen[bytes]] = {}

    def _start_workers(self, worker_group):
        spec = worker_group.spec
        self._children = {}
        for worker in worker_group.workers:
            env = {
                **os.environ,
                "RANK": str(worker.global_rank),
                "LOCAL_RANK": str(worker.local_rank),
                "WORLD_SIZE": str(worker.world_size),
                "MASTER_ADDR": worker_group.master_addr,
                "MASTER_PORT": str(worker_group.master_port),
            }
            command = [spec.entrypoint, *spec.args]
            child = subprocess.Popen(command, env=env, start_new_session=True)
            self._children[worker.local_rank] = child
        return {rank: child.pid for rank, child in self._children.items()}

    def _monitor_workers(self, worker_group):
        ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
        codes = {rank: child.poll() for rank, child in self._children.items()}
        if failed := {rank: code for rank, code in codes.items() if code}:
            failures = {
                ranks[rank]: ProcessFailure(rank, self._children[rank].pid, code)
                for rank, code in failed.items()
            }
            return RunResult(WorkerState.FAILED, failures=failures)
        if None in codes.values():
            return RunResult(WorkerState.HEALTHY)
        return RunResult(WorkerState.SUCCEEDED, dict.fromkeys(ranks.values()))

    def _stop_workers(self, worker_group):
        self._shutdown()

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        for child in self._children.values():
            self._kill(child, death_sig)
        for child in self._children.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout)
            self._kill(child, signal.SIGKILL)
            child.wait()

    def _kill(self, child, number):
        with suppress(ProcessLookupError):  # what the worker started is in its group
            os.killpg(child.pid, number)


if __name__ == "__main__":
    command = sys.argv[2:]
    if sys.argv[1:2] != ["--"] or not command:
        print(f"usage: {os.path.basename(sys.argv[0])} -- COMMAND [ARGUMENT ...]", file=sys.stderr)
        sys.exit(2)
    spec = WorkerSpec("default", 2, entrypoint=command[0], args=command[1:], max_restarts=1)
    try:
        sys.exit(SubprocessAgent(spec).run().exit_code)
    except SignalException as told:
        sys.exit(128 + told.sigval)

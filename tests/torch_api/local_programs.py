"""Functions and agents for the tests of LocalElasticAgent; spawned workers import them by name."""

from __future__ import annotations

import os
import signal
import sys
import time

from elastic_fsm.group import WorkerState
from elastic_fsm.server.local import LocalElasticAgent


def trainer(factor, text):
    print(f"hello from {os.environ['RANK']}, {text}")
    print("careful", file=sys.stderr)
    return factor * int(os.environ["RANK"])


def fails_once(marker):
    """The last rank raises in the first attempt."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
        raise LookupError("lost")
    return os.environ["TORCHELASTIC_RESTART_COUNT"]


def fails_always():
    raise LookupError(f"lost in {os.environ['RANK']}")


def stops_the_agent(number):
    """Rank 0 tells the agent to stop; both would work for ever."""
    if os.environ["RANK"] == "0":
        os.kill(os.getppid(), number)
    signal.pause()


def environment():
    return dict(os.environ)


def inner_run():
    """An agent inside a worker of another one."""
    from elastic_fsm.group import WorkerSpec
    from elastic_fsm.logs.specs import DefaultLogsSpecs

    spec = WorkerSpec("inner", 2, entrypoint=environment)
    result = LocalElasticAgent(
        spec, DefaultLogsSpecs(os.devnull), overrides=[f"run_dir={os.environ['INNER_RUNS']}"]
    ).run()
    return result.return_values


class TakesPart(LocalElasticAgent):
    """Overrides a lifecycle method, and so runs on the coarse machine."""

    def _initialize_workers(self, worker_group):
        self.initialized = getattr(self, "initialized", 0) + 1
        super()._initialize_workers(worker_group)


def nap():
    time.sleep(0.01)


class OwnLoop(LocalElasticAgent):
    """Brings its own loop, as others write them for torch: looks, restarts, gives up."""

    def _invoke_run(self, role="default"):
        group = self._worker_group
        self._initialize_workers(group)
        while (result := self._monitor_workers(group)).state is WorkerState.HEALTHY:
            self.look()
        if not result.is_failed() or self._remaining_restarts == 0:
            return result
        self._remaining_restarts -= 1
        self._stop_workers(group)
        self.between_starts()
        return self._invoke_run(role)

    def look(self):
        time.sleep(0.01)

    def between_starts(self):
        pass

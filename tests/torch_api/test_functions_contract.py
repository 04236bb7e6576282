"""Whatever way a worker is born, the launcher keeps its contract.

The workers are functions that become the commands of the contract's checks.
"""

from __future__ import annotations

import pytest
from function_workers import become

from elastic_fsm.launchers.base import WorkerPlan
from elastic_fsm.launchers.choice import make_starter
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.sources.exits import Exits
from elastic_fsm.testing.contracts import ProcessLauncherContract

pytestmark = pytest.mark.slow


class Functions(ProcessLauncherContract):
    quiet = 0.02
    start_method = ""

    def make_launcher(self, loop):
        self.exits_source = Exits(loop)
        starter = make_starter(
            "multiprocessing",
            loop=loop,
            exits=self.exits_source,
            start_method=self.start_method,
            preload=["function_workers"] * (self.start_method == "forkserver"),
        )
        return SubprocessLauncher(loop, self.exits_source, starter=starter)

    def teardown_method(self):
        self.launcher.close()
        self.exits_source.close()
        super().teardown_method()

    def worker(self, rank, argv, **fields):
        if "/no/" in argv[0]:
            return super().worker(rank, argv, **fields)
        env = {"BELL": str(self.folder / "bell"), **fields.pop("env", {})}
        return WorkerPlan(rank, rank, (), env, **fields, function=become, args=argv)


class TestSpawn(Functions):
    start_method = "spawn"


class TestFork(Functions):
    start_method = "fork"


class TestForkserver(Functions):
    start_method = "forkserver"

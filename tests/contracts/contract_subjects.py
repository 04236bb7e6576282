"""What the contracts are run against here, and how a check is run by itself."""

from __future__ import annotations

from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.loop import Loop
from elastic_fsm.rendezvous.memory import Memory, MemoryStore
from elastic_fsm.rendezvous.standalone import Standalone
from elastic_fsm.sources.exits import Exits
from elastic_fsm.testing import ManualClock, OnStop, ScriptedLauncher, ScriptedRendezvous
from elastic_fsm.testing.contracts import (
    LauncherContract,
    ProcessLauncherContract,
    RendezvousContract,
    StoreContract,
)
from elastic_fsm.world import Node


class InVirtualTime:
    """Silence can be listened for as long as one likes."""

    quiet = 1000.0
    patience = 5000.0

    def make_loop(self):
        return Loop(ManualClock())


class Subprocesses(ProcessLauncherContract):
    quiet = 0.02
    launcher_class = SubprocessLauncher

    def make_launcher(self, loop):
        self.exits_source = Exits(loop)
        return self.launcher_class(loop, self.exits_source)

    def teardown_method(self):
        self.launcher.close()
        self.exits_source.close()
        super().teardown_method()


class ActingLauncher(ScriptedLauncher):
    """Reads what its workers do out of their commands, as a shell would."""

    def start(self, plan):
        self.on_signal = {"SIGUSR1": (0.0, 7)}
        for worker in plan.workers:
            self._learn(worker.local_rank, worker.argv[0])
        super().start(plan)

    def _learn(self, rank, conduct):
        listens, deaf = OnStop(takes=0.3, exit_code=5), OnStop(takes=None)
        self.on_stop[rank] = {"deaf": deaf, "listens": listens}.get(conduct, OnStop())
        if conduct == "./no/such/program":
            self.cannot_start[rank] = "cannot be started: no such file"
        code = ENDS.get(conduct)
        if code is not None:
            self._loop.call_later(1, lambda: self.exits(rank, code))


ENDS = {"exit 0": 0, "exit 3": 3, "kill -KILL $$": -9}


class Scripted(InVirtualTime, LauncherContract):
    launcher_class = ActingLauncher

    def make_launcher(self, loop):
        return self.launcher_class(loop)

    def argv(self, conduct):
        return (conduct,)

    def await_workers(self, count):
        """They run from the start."""

    def is_alive(self, pid):
        return pid in self.launcher.alive.values()


class StandaloneAlone(InVirtualTime, RendezvousContract):
    def make_rendezvous(self, loop):
        return Standalone(loop)


class ScriptedAlone(InVirtualTime, RendezvousContract):
    rendezvous_class = ScriptedRendezvous

    def make_rendezvous(self, loop):
        return self.rendezvous_class(loop)


class AmongOthers(ScriptedRendezvous):
    """With a node before this one and one after it."""

    def complete(self):
        nodes = [Node(f"other-{n}", "trainer", n, f"10.0.0.{n}") for n in (2, 1)]
        super().complete(before=nodes[:1], after=nodes[1:])


class ScriptedAmongOthers(ScriptedAlone):
    rendezvous_class = AmongOthers


class InMemory(InVirtualTime, StoreContract):
    quiet = 0.0  # leases would end
    store_class = MemoryStore
    memory_class = Memory

    def make_stores(self, loop):
        memory = self.memory_class(loop)
        return self.store_class(memory), self.store_class(memory)


def checks(contract):
    return [name for name in dir(contract) if name.startswith("test_")]


def run_check(contract, name):
    """One check, as pytest runs it."""
    suite = contract()
    suite.setup_method()
    try:
        getattr(suite, name)()
    finally:
        suite.teardown_method()

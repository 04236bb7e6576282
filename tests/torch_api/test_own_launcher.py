"""What a LocalElasticAgent takes of the user's own, and what it refuses."""

from __future__ import annotations

import pytest
from local_programs import TakesPart

from elastic_fsm.events import Event
from elastic_fsm.group import WorkerSpec, WorkerState
from elastic_fsm.launchers.base import Launcher
from elastic_fsm.server.local import LocalElasticAgent


class Imagined(Launcher):
    """Its workers are numbers, and done at once."""

    def __init__(self, loop):
        self.loop = loop
        self.is_closed = False

    def start(self, plan):
        pids = [1000 + worker.local_rank for worker in plan.workers]
        self.loop.post(Event("workers_started", {"pids": pids}, attempt=plan.attempt))
        for rank, pid in enumerate(pids):
            end = {"local_rank": rank, "pid": pid, "exit_code": 0}
            end |= {"stopped_by_agent": False, "reason": ""}
            self.loop.post(Event("worker_exited", end, attempt=plan.attempt))

    def stop(self, attempt, signal, grace):
        self.loop.post(Event("workers_stopped", attempt=attempt))

    def signal(self, signal, local_rank=None, *, why=""):
        return 0

    def kill(self):
        raise AssertionError("there was no stop")

    def close(self):
        self.is_closed = True
        return []


def test_a_launcher_of_ones_own(tmp_path):
    made = []

    def make(loop):
        made.append(Imagined(loop))
        return made[-1]

    spec = WorkerSpec("trainer", 2, entrypoint="/no/such/program")
    agent = LocalElasticAgent(spec, launcher=make, overrides=[f"run_dir={tmp_path}"])
    assert made == []
    assert agent.run().state is WorkerState.SUCCEEDED
    assert [worker.id for worker in agent.get_worker_group().workers] == [1000, 1001]
    agent.run()
    assert [launcher.is_closed for launcher in made] == [True, True]


def test_a_subclass_that_starts_its_own_workers_has_no_use_for_a_launcher():
    spec = WorkerSpec("trainer", 2, entrypoint="/bin/true")
    with pytest.raises(ValueError, match="TakesPart overrides methods of the lifecycle"):
        TakesPart(spec, launcher=Imagined)


@pytest.mark.parametrize("kind", [LocalElasticAgent, TakesPart])
def test_a_binding_that_there_is_not_is_refused(tmp_path, kind):
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true", numa_options=object())
    with pytest.raises(ValueError, match="numa_options is not offered"):
        kind(spec, overrides=[f"run_dir={tmp_path}"]).run()


@pytest.mark.parametrize(
    ("kind", "state"), [(LocalElasticAgent, "JOINING"), (TakesPart, "INITIALIZING")]
)
def test_an_agent_shows_its_machine(kind, state):
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true")
    assert f"INIT -> {state}" in str(kind(spec).machine)
    hasty = kind(spec, overrides=["~machine.transitions.hurry"])
    assert "hurry" in kind(spec).machine.diagram.edges
    assert "hurry" not in hasty.machine.diagram.edges

"""``Launcher.signal`` with real processes: who gets it, and that nobody is stopped by it."""

from __future__ import annotations

import sys

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.loop import Loop
from elastic_fsm.sources.base import Command
from elastic_fsm.sources.commands import Commands
from elastic_fsm.sources.exits import Exits

pytestmark = pytest.mark.slow

# Says that it can hear, then counts what it hears and ends with the number.
LISTENER = """
import signal, sys
both = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
open(sys.argv[1], "w").close()
heard = 0
while signal.sigwait(both) == signal.SIGUSR1:  # the first of two that wait, as its number is lower
    heard += 1
sys.exit(10 + heard)
"""


class Workers:
    """Workers that listen, each with a named pipe by which it says so."""

    def __init__(self, folder) -> None:
        self.loop = Loop(SystemClock())
        self.exits = Exits(self.loop)
        self.commands = Commands(self.loop, self.exits, print)
        self.launcher = SubprocessLauncher(
            self.loop, self.exits, sole_owner=True, bystanders=self.commands.pids
        )
        self.folder = folder

    def start(self, count: int) -> None:
        self.launcher.start(LaunchPlan(0, tuple(self._worker(rank) for rank in range(count))))
        assert self.loop.next_event().name == "workers_started"
        for rank in range(count):
            (self.folder / f"up{rank}").open().close()

    def _worker(self, rank: int) -> WorkerPlan:
        import os

        os.mkfifo(self.folder / f"up{rank}")
        argv = (sys.executable, "-c", LISTENER, str(self.folder / f"up{rank}"))
        return WorkerPlan(rank, rank, argv)

    def ends(self, count: int) -> dict[int, int]:
        events = [self.loop.next_event() for _ in range(count)]
        assert {event.name for event in events} == {"worker_exited"}
        assert not any(event.data["stopped_by_agent"] for event in events)
        return {event.data["local_rank"]: event.data["exit_code"] for event in events}

    def close(self) -> None:
        self.launcher.close()
        self.commands.close()
        self.exits.close()
        self.loop.close()


@pytest.fixture
def workers(tmp_path):
    made = Workers(tmp_path)
    yield made
    made.close()


def test_all_of_them_or_one(workers):
    workers.start(3)
    assert workers.launcher.signal("SIGUSR1") == 3
    assert workers.launcher.signal("SIGUSR2", 1) == 1
    assert workers.ends(1) == {1: 11}
    assert workers.launcher.signal("SIGUSR2", 1) == 0  # it is gone
    assert workers.launcher.signal("SIGUSR2") == 2
    assert workers.ends(2) == {0: 11, 2: 11}
    assert workers.launcher.signal("SIGUSR2") == 0


def test_a_stop_leaves_commands_alone(workers):
    """For the stop every unknown child is a stray."""
    workers.start(1)
    workers.commands.run(Command("it", ["sleep", "600"]))
    workers.launcher.stop(0, "SIGKILL", None)
    assert [workers.loop.next_event().name for _ in range(2)] == [
        "worker_exited", "workers_stopped",
    ]  # fmt: skip
    assert len(workers.commands.pids) == 1


def test_the_mark_by_which_the_guardian_finds_what_is_ours(workers):
    assert list(workers.launcher.marking) == ["ELASTIC_FSM_WORKER"]

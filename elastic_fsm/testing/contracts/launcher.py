"""What every launcher must keep: exactly one answer to everything that is asked."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.base import Launcher, LaunchPlan, WorkerPlan
from elastic_fsm.testing.contracts.base import Contract

if TYPE_CHECKING:
    from elastic_fsm.events import Event
    from elastic_fsm.loop import Loop

__all__ = ["CONDUCTS", "LauncherContract"]

_LISTENER = """
import os, signal, sys, time
heard = {signal.SIGTERM, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
with open(os.environ["BELL"], "w") as bell:
    bell.write("up\\n")
if signal.sigwait(heard) == signal.SIGUSR1:
    sys.exit(7)
time.sleep(0.3)
sys.exit(5)
"""

CONDUCTS = {
    "waits": ("sh", "-c", 'echo up >"$BELL"; exec sleep 600'),
    # One process, which has it from its shell that the signal is ignored: none is left of a kill.
    "deaf": ("sh", "-c", 'trap "" TERM; echo up >"$BELL"; exec sleep 600'),
    "listens": (sys.executable, "-I", "-S", "-c", _LISTENER),
}
"""Workers that go on: one that any signal ends, one that ignores SIGTERM, and one that ends with
7 on SIGUSR1 and, a moment later, with 5 on SIGTERM."""


class LauncherContract(Contract):
    """Subclass it, say how a launcher is made, and pytest runs every check.

    Workers are small programs. For a launcher that starts no processes say in :meth:`argv`,
    :meth:`await_workers` and :meth:`is_alive` what stands for them.
    """

    def make_launcher(self, loop: Loop) -> Launcher:
        """A new launcher; it is closed after the check."""
        raise NotImplementedError

    def argv(self, conduct: str) -> tuple[str, ...]:
        """The command of a worker: one of ``CONDUCTS``, or a shell script that ends by itself."""
        return CONDUCTS.get(conduct, ("sh", "-c", conduct))

    def await_workers(self, count: int) -> None:
        """Wait until so many workers of ``CONDUCTS`` have come to the point where they wait."""
        rung = b""
        while rung.count(b"\n") < count:
            ready, _, _ = select.select([self._bell], [], [], self.patience)
            assert ready, f"the workers do not run: {count} should say so, {rung!r} was said"
            rung += os.read(self._bell, 4096)

    def is_alive(self, pid: int) -> bool:
        """Whether there is a process, be it a zombie."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    # -- what the checks are written with --------------------------------------------------------

    def setup_method(self) -> None:
        """Before each check."""
        super().setup_method()
        self._early: list[Event] = []
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        os.mkfifo(self.folder / "bell")
        self._bell = os.open(self.folder / "bell", os.O_RDWR | os.O_NONBLOCK)
        self.launcher = self.must_not_block(self.make_launcher(self.loop), Launcher)

    def teardown_method(self) -> None:
        """After each check."""
        os.close(self._bell)
        self._folder.cleanup()
        try:
            self.launcher.close()
        finally:
            super().teardown_method()

    def worker(self, rank: int, argv: tuple[str, ...], **fields: Any) -> WorkerPlan:
        """The plan of one worker."""
        env = {"BELL": str(self.folder / "bell"), **fields.pop("env", {})}
        return WorkerPlan(rank, rank, argv, env, **fields)

    def start(self, *conducts: str, attempt: int = 0) -> list[int]:
        """Start workers and wait until they run; their pids by local rank."""
        workers = [self.worker(rank, self.argv(each)) for rank, each in enumerate(conducts)]
        self.launcher.start(LaunchPlan(attempt, tuple(workers)))
        while (event := self.next_event()).name == "worker_exited":
            self._early.append(event)  # it was done before the last of them was started
        assert event.name == "workers_started", f"workers_started should have come, not {event}"
        pids = event.data["pids"]
        self.await_workers(sum(each in CONDUCTS for each in conducts))
        return list(pids)

    def exits(self, count: int) -> list[Event]:
        """So many ends of workers."""
        early, self._early = self._early[:count], self._early[count:]
        return early + [self.take("worker_exited") for _ in range(count - len(early))]

    def stopped(self, workers: int) -> dict[int, int]:
        """The one answer to a stop, after the ends of so many workers: codes by local rank."""
        events = self.exits(workers)
        self.take("workers_stopped")
        self.silence()
        assert all(event.data["stopped_by_agent"] for event in events), "it was the agent"
        return codes(events)

    # -- starting --------------------------------------------------------------------------------

    def test_pids_are_told_in_the_order_of_the_plan(self) -> None:
        pids = self.start("waits", "waits", "waits")
        assert len(set(pids)) == 3
        self.launcher.stop(0, "SIGTERM", self.patience)
        told = {event.data["local_rank"]: event.data["pid"] for event in self.exits(3)}
        assert told == dict(enumerate(pids))

    def test_a_worker_that_cannot_be_started_has_ended_with_a_reason(self) -> None:
        """Those after it are not started, and those before it can be stopped."""
        workers = (
            self.worker(0, self.argv("waits")),
            self.worker(1, ("./no/such/program",)),
            self.worker(2, self.argv("waits")),
        )
        self.launcher.start(LaunchPlan(0, workers))
        (failed,) = self.exits(1)
        assert (failed.data["local_rank"], failed.data["pid"]) == (1, None)
        assert failed.data["exit_code"] in (126, 127)
        assert failed.data["reason"], "the reason is missing"
        self.await_workers(1)
        self.launcher.stop(0, "SIGTERM", self.patience)
        assert self.stopped(1) == {0: -signal.SIGTERM}

    def test_the_next_attempt_is_another_one(self) -> None:
        for attempt in range(3):
            self.start("waits", "waits", attempt=attempt)
            self.launcher.stop(attempt, "SIGTERM", self.patience)
            assert self.stopped(2) == {0: -signal.SIGTERM, 1: -signal.SIGTERM}

    def test_answers_carry_their_attempt(self) -> None:
        self.launcher.start(LaunchPlan(7, (self.worker(0, self.argv("waits")),)))
        events = [self.take("workers_started")]
        self.await_workers(1)
        self.launcher.stop(7, "SIGTERM", self.patience)
        events += [self.take("worker_exited"), self.take("workers_stopped")]
        assert [event.attempt for event in events] == [7, 7, 7]

    # -- ends ------------------------------------------------------------------------------------

    def test_each_end_is_told_once_with_its_code(self) -> None:
        self.start("exit 0", "exit 3", "kill -KILL $$")
        events = self.exits(3)
        self.silence()
        assert codes(events) == {0: 0, 1: 3, 2: -signal.SIGKILL}
        assert not any(event.data["stopped_by_agent"] for event in events), "they ended themselves"
        assert all(isinstance(event.data["reason"], str) for event in events)

    # -- stopping --------------------------------------------------------------------------------

    def test_a_stop_has_one_answer_when_all_have_ended(self) -> None:
        pids = self.start("waits", "listens", "waits")
        self.launcher.stop(0, "SIGTERM", self.patience)
        assert self.stopped(3) == {0: -signal.SIGTERM, 1: 5, 2: -signal.SIGTERM}
        assert not any(map(self.is_alive, pids)), "a stop is over when all have been reaped"

    def test_a_stop_when_nobody_is_alive_is_answered(self) -> None:
        self.launcher.stop(0, "SIGTERM", None)
        assert self.stopped(0) == {}
        self.start("exit 0", attempt=1)
        self.exits(1)
        self.launcher.stop(1, "SIGTERM", self.patience)
        assert self.stopped(0) == {}

    def test_a_second_stop_joins_the_first(self) -> None:
        """One signal, one deadline, one answer."""
        self.start("listens")
        self.launcher.stop(0, "SIGTERM", None)
        self.launcher.stop(0, "SIGKILL", 0.0)
        assert self.stopped(1) == {0: 5}

    def test_the_signal_is_the_one_that_was_asked_for(self) -> None:
        self.start("waits")
        self.launcher.stop(0, "SIGUSR2", self.patience)
        assert self.stopped(1) == {0: -signal.SIGUSR2}

    def test_the_grace_ends_with_sigkill(self) -> None:
        self.start("deaf", "waits")
        self.launcher.stop(0, "SIGTERM", 0.1)
        assert self.stopped(2) == {0: -signal.SIGKILL, 1: -signal.SIGTERM}

    def test_kill_cuts_the_grace_short(self) -> None:
        self.start("deaf")
        self.launcher.stop(0, "SIGTERM", None)
        self.launcher.kill()
        self.launcher.kill()
        assert self.stopped(1) == {0: -signal.SIGKILL}

    def test_kill_without_a_stop_does_nothing(self) -> None:
        self.launcher.kill()
        self.start("waits")
        self.launcher.kill()
        self.launcher.stop(0, "SIGTERM", self.patience)
        assert self.stopped(1) == {0: -signal.SIGTERM}

    # -- signals ---------------------------------------------------------------------------------

    def test_a_signal_is_passed_on_and_nobody_is_stopped(self) -> None:
        self.start("listens", "listens", "listens")
        assert self.launcher.signal("SIGUSR1", 2) == 1
        events = self.exits(1)
        assert self.launcher.signal("SIGUSR1", 2) == 0, "it has ended"
        assert self.launcher.signal("SIGUSR1") == 2
        events += self.exits(2)
        self.silence()
        assert codes(events) == {0: 7, 1: 7, 2: 7}
        assert not any(event.data["stopped_by_agent"] for event in events)

    def test_a_worker_that_a_signal_ends_has_the_reason_that_came_with_it(self) -> None:
        self.start("waits", "waits")
        assert self.launcher.signal("SIGKILL", 1, why="it is late") == 1
        (ended,) = self.exits(1)
        assert ended.data["exit_code"] == -signal.SIGKILL
        assert ended.data["reason"] == "it is late"
        self.launcher.stop(0, "SIGTERM", self.patience)
        assert self.stopped(1) == {0: -signal.SIGTERM}

    # -- the end ---------------------------------------------------------------------------------

    def test_closing_leaves_nothing(self) -> None:
        pids = self.start("deaf", "waits")
        self.launcher.stop(0, "SIGTERM", None)
        assert self.launcher.close() == []
        assert not any(map(self.is_alive, pids)), "somebody is left, or was not reaped"

    def test_closing_again_does_nothing(self) -> None:
        self.start("waits")
        assert [self.launcher.close(), self.launcher.close()] == [[], []]


def codes(events: list[Event]) -> dict[int, int]:
    """Exit codes by local rank; each worker has one end."""
    ended = {event.data["local_rank"]: event.data["exit_code"] for event in events}
    assert len(ended) == len(events), "an end was told twice"
    return ended

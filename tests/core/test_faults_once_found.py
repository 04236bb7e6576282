"""Faults that were found by trying to break the agent, each with the smallest case of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from types import ModuleType

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.failures import ProcessFailure
from elastic_fsm.loop import Loop
from elastic_fsm.problems import BadInput
from elastic_fsm.registry import action, condition, delay
from elastic_fsm.sources.exits import Exits
from elastic_fsm.sources.signals import Signals
from elastic_fsm.testing import Scenario


@pytest.fixture
def loop():
    made = Loop(SystemClock())
    yield made
    made.close()


class RecordingClock(SystemClock):
    """Notes how long the loop would wait, and does not."""

    def wait(self, select, timeout):
        self.timeout = timeout
        raise InterruptedError


def test_a_timer_in_a_month_does_not_overflow_the_selector():
    loop = Loop(clock := RecordingClock())
    loop.call_later(700 * 3600.0, lambda: None)
    with pytest.raises(InterruptedError):
        loop.run_until(lambda: False, timeout=10**7)
    loop.close()
    assert clock.timeout <= 86_400


def test_an_error_file_of_endless_brackets_is_no_error_of_ours(tmp_path):
    path = tmp_path / "error.json"
    path.write_text("[" * 200_000)
    assert ProcessFailure(0, 1, 1, error_file=str(path)).message == ""


def test_a_child_that_somebody_else_reaped_has_ended_all_the_same(loop):
    exits, told = Exits(loop), []
    child = subprocess.Popen([sys.executable, "-c", ""])
    exits.watch(child.pid, lambda pid, code: told.append((pid, code)))
    child.wait()
    assert loop.run_until(lambda: bool(told), timeout=10)
    assert told == [(child.pid, 255)]
    exits.close()


def test_signals_of_an_event_loop_around_us_reach_it(loop):
    """asyncio reads its own signals from the wake-up descriptor that was set before ours."""
    theirs, written = socket.socketpair()
    written.setblocking(False)
    before = signal.set_wakeup_fd(written.fileno())
    handler = signal.signal(signal.SIGUSR2, lambda *_: None)
    source = Signals(loop, ["SIGUSR1"])
    source.start()
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert loop.next_event().data == {"signal": "SIGUSR1"}
        assert theirs.recv(10) == bytes([signal.SIGUSR2])
    finally:
        source.close()
        signal.signal(signal.SIGUSR2, handler)
        signal.set_wakeup_fd(before)
        theirs.close()
        written.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork, in a process with threads
def test_a_signal_to_a_forked_child_is_none_to_us(loop):
    source = Signals(loop, ["SIGUSR1"])
    source.start()
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGUSR1)  # default again: it ends the child
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGUSR1
    os.kill(os.getpid(), signal.SIGUSR1)
    assert loop.next_event().data == {"signal": "SIGUSR1"}
    assert not loop._inbox
    source.close()


def test_the_last_of_two_runs_gives_the_orphans_back():
    if sys.platform != "linux":
        pytest.skip("only Linux has subreapers")
    from elastic_fsm.launchers.strays import Strays, _Subreaper

    first, second = Strays("a", sole_owner=False), Strays("b", sole_owner=False)
    first.adopt()
    second.adopt()
    first.release()
    assert _Subreaper._runs == 1
    assert is_subreaper()
    second.release()
    assert not is_subreaper()


def is_subreaper() -> bool:
    import ctypes

    value = ctypes.c_int()
    ctypes.CDLL(None).prctl(37, ctypes.byref(value), 0, 0, 0)
    return bool(value.value)


@pytest.mark.parametrize("kind", [condition, action, delay])
def test_a_rule_that_nobody_could_call_is_refused_where_it_is_written(kind):
    async def later(first, second): ...

    def too_short(only): ...

    def any_name(first, second, **more): ...

    def no_name(first, second, third, /): ...

    with pytest.raises(TypeError, match="nobody awaits"):
        kind(later)
    with pytest.raises(TypeError, match="must begin with"):
        kind(too_short)
    for function in (any_name, no_name):
        with pytest.raises(TypeError, match="must name each of its parameters"):
            kind(function)


def test_answers_are_a_list():
    with pytest.raises(TypeError, match="lists of events"):
        action(answers="dug_out")
    with pytest.raises(TypeError, match="a list of events"):
        condition(events="worker_exited")


def test_a_delay_that_is_never_without_saying_so_does_not_hang_the_run():
    @delay
    def forgetful(facts, settings):
        return None

    plugin = ModuleType("plugin")
    plugin.forgetful = forgetful
    timeouts = {"BACKOFF": {"timeouts": {"backoff_elapsed": "forgetful"}}}
    run = Scenario("elastic", max_restarts=1, plugins=[plugin], machine={"states": timeouts})
    run.exits(0, code=1, at=5)
    assert run.play().exit_code == 70
    assert "forgetful returned None" in run.agent.error


def test_a_condition_that_reads_what_the_event_does_not_have_is_refused():
    machine = {"transitions": {"restart": {"conditions": ["restart_allowed", "worker_failed"]}}}
    with pytest.raises(BadInput) as refused:
        Scenario("elastic", machine=machine)
    assert {problem.path for problem in refused.value.problems} == {
        "machine.transitions.restart.conditions"
    }
    reads = "worker_failed reads worker_exited; this arrow is triggered by "
    assert [problem.what for problem in refused.value.problems] == [
        reads + "workers_stopped",
        reads + "doubt_elapsed",  # of the one that is like it
    ]


def test_workers_are_not_started_twice_in_one_attempt():
    run = Scenario("elastic", workers=2)
    run.exits(0, code=1, at=5)
    run.play()
    with pytest.raises(RuntimeError, match="started twice"):
        run.agent.plan()

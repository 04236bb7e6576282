"""The timers that workers set on themselves: client, pipe and source, without an agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from elastic_fsm.group import WorkerGroup, WorkerSpec
from elastic_fsm.loop import Loop
from elastic_fsm.sources.sleepers import Sleepers
from elastic_fsm.sources.timers import FileTimers
from elastic_fsm.testing import ManualClock, NothingCanHappen
from elastic_fsm.timer import FileTimerClient, configure, expires


@pytest.fixture
def loop():
    made = Loop(ManualClock())
    yield made
    made.close()


@pytest.fixture
def group():
    """Local rank 1 is the session of this process."""
    made = WorkerGroup(WorkerSpec("trainer", 2, entrypoint="train"))
    made.begin_attempt(3)
    made.note_started({0: 2**22 + 1, 1: os.getsid(0)})
    return made


class Timers(FileTimers):
    """Remembers what it complained of; asks in the loop's time."""

    def __init__(self, loop, path, group):
        self.complaints = []
        super().__init__(loop, path, group, self.complaints.append)
        self.client = FileTimerClient(path)

    def ask(self, after, scope="step", client=None):
        (client or self.client).acquire(scope, self._loop.clock.wall() + after)

    def write(self, text):
        with open(self.path, "wb", buffering=0) as pipe:
            pipe.write(text)


@pytest.fixture
def timers(loop, group, tmp_path):
    made = Timers(loop, str(tmp_path / "own" / "timers"), group)
    made.start()
    yield made
    made.close()


def next_expiry(loop):
    event = loop.next_event()
    assert event.name == "timer_expired"
    return event


def nothing_comes(loop):
    with pytest.raises(NothingCanHappen):
        loop.next_event()
    return True


def test_a_timer_expires(loop, timers):
    timers.ask(60)
    event = next_expiry(loop)
    assert loop.clock.now() == pytest.approx(60)
    assert event.attempt == 3
    assert dict(event.data) == {
        "local_rank": 1,
        "pid": os.getpid(),
        "scope": "step",
        "after": 60.0,
        "signal": "SIGKILL",
    }


def test_one_that_is_released_does_not(loop, timers):
    timers.ask(60)
    timers.client.release("step")
    assert nothing_comes(loop)


def test_a_second_one_of_the_same_scope_replaces_the_first(loop, timers):
    timers.ask(60)
    timers.ask(90)
    next_expiry(loop)
    assert loop.clock.now() == pytest.approx(90)
    assert nothing_comes(loop)


def test_scopes_are_apart(loop, timers):
    timers.ask(60, "outer")
    timers.ask(10, "inner")
    timers.client.release("inner")
    assert next_expiry(loop).data["scope"] == "outer"


def test_a_signal_of_0_only_tells(loop, timers):
    timers.ask(1, client=FileTimerClient(timers.path, signal=0))
    assert next_expiry(loop).data["signal"] == ""


def test_one_that_is_over_when_it_is_read_can_still_be_taken_back_for_a_second(loop, timers):
    timers.ask(-5)
    next_expiry(loop)
    assert loop.clock.now() == 1.0
    timers.ask(-5)
    loop.call_later(0.5, lambda: timers.client.release("step"))
    assert nothing_comes(loop)


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"\xff\xfe",
        b"[1, 2]",
        b"{}",
        b"[" * 4000,
        b'{"pid": 0, "scope_id": "a", "expiration_time": 1, "signal": 9}',
        b'{"pid": 1, "scope_id": "a", "expiration_time": NaN, "signal": 9}',
        b'{"pid": 1, "scope_id": "a", "expiration_time": "soon", "signal": 9}',
        b'{"pid": 1, "scope_id": "a", "expiration_time": 1, "signal": 4000}',
        b'{"pid": Infinity, "scope_id": "a", "expiration_time": 1, "signal": 9}',
    ],
    ids=range(10),
)
def test_what_is_no_request_is_told_once_and_the_others_are_read(loop, timers, line):
    timers.write(line + b"\n" + line + b"\n")
    timers.ask(60)
    next_expiry(loop)
    [complaint] = timers.complaints
    assert "is no request for a timer" in complaint


def test_a_line_without_an_end_is_not_kept(loop, timers):
    timers.write(b"x" * 10_000)
    assert nothing_comes(loop)
    assert len(timers.complaints) == 1
    timers.write(b"\n")
    timers.ask(60)
    next_expiry(loop)


def test_requests_of_strangers_are_ignored(loop, timers, group):
    group.workers[1].id = 2**22 + 2
    timers.ask(60)
    assert nothing_comes(loop)


@pytest.mark.parametrize("pid", [2**22 + 5, 2**80])
def test_requests_of_nobody_are_ignored(loop, timers, pid):
    request = {"pid": pid, "scope_id": "a", "expiration_time": 1, "signal": 9}
    timers.write(json.dumps(request).encode() + b"\n")
    assert nothing_comes(loop)


@pytest.mark.parametrize("after", [0, 60])
def test_one_that_was_set_before_its_worker_was_known_counts(loop, timers, group, after):
    group.workers[1].id = None
    timers.ask(after)
    loop.call_later(5, lambda: group.note_started({1: os.getsid(0)}))
    assert next_expiry(loop).data["local_rank"] == 1


def test_those_of_an_earlier_attempt_are_gone(loop, timers, group):
    def begin_again():
        group.begin_attempt(4)
        group.note_started({1: os.getsid(0)})

    timers.ask(60)
    loop.call_later(1, begin_again)
    assert nothing_comes(loop)


def test_those_of_a_worker_that_has_ended_are_gone(loop, timers, group):
    timers.ask(60)
    loop.call_later(1, lambda: group.exits.update({1: "ended"}))
    assert nothing_comes(loop)


def test_what_was_left_before_a_pause_is_left_after_it(loop, timers):
    timers.ask(60)
    loop.call_later(10, lambda: loop.postpone(1000))
    next_expiry(loop)
    assert loop.clock.now() == pytest.approx(1060)


def test_an_agent_that_stood_still_gives_the_time_once_more(loop, timers):
    def stand_still():
        loop.clock._now += 500

    timers.ask(60)
    loop.call_later(10, stand_still)
    next_expiry(loop)
    assert loop.clock.now() == pytest.approx(510 + 450)


def test_all_can_be_taken_back(loop, timers):
    timers.ask(60)
    loop.call_later(1, timers.stop)
    assert nothing_comes(loop)


def test_the_pipe_is_private_and_goes_with_its_folder(timers, tmp_path):
    assert os.stat(timers.path).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / "own").st_mode & 0o777 == 0o700
    timers.close()
    timers.close()
    assert os.listdir(tmp_path) == []


def test_the_pipe_of_a_dead_agent_is_replaced_and_that_of_a_living_one_is_not(
    loop, timers, group, tmp_path
):
    with pytest.raises(FileExistsError):
        Timers(loop, timers.path, group).start()
    os.mkfifo(tmp_path / "left")
    second = Timers(loop, str(tmp_path / "left"), group)
    second.start()
    second.ask(1)
    next_expiry(loop)
    second.close()


def test_a_writer_waits_while_the_pipe_is_full(loop, timers):
    """A release that is lost would end a worker that came back in time."""
    many = 1000  # far more than a pipe holds
    code = (
        "import sys; from elastic_fsm.timer import FileTimerClient\n"
        "client = FileTimerClient(sys.argv[1])\n"
        f"for n in range({many}): client.acquire(f'step {{n}}', 1e10)\n"
        f"for n in range({many}): client.release(f'step {{n}}')\n"
    )
    asks = subprocess.Popen([sys.executable, "-c", code, timers.path])
    while asks.poll() is None:
        loop._run_ready(wait=False)
    assert asks.returncode == 0
    loop._run_ready(wait=False)
    assert timers._timers == {}


# -- the client ------------------------------------------------------------------------------------


def test_no_agent_at_the_other_end(tmp_path):
    path = tmp_path / "timers"
    with pytest.raises(BrokenPipeError, match="no agent reads"):
        FileTimerClient(str(path)).acquire("step", 1.0)
    os.mkfifo(path)
    with pytest.raises(BrokenPipeError, match="no agent reads"):
        FileTimerClient(str(path)).release("step")


def test_there_are_no_timers_without_an_agent_that_reads_them(monkeypatch):
    monkeypatch.setattr("elastic_fsm.timer._client", [])
    monkeypatch.delenv("TORCHELASTIC_TIMER_FILE", raising=False)
    with pytest.raises(RuntimeError, match="there are no timers here"), expires(after=1):
        pass


def test_a_block_that_is_left_in_time(loop, timers, monkeypatch):
    monkeypatch.setattr("elastic_fsm.timer._client", [])
    monkeypatch.setattr("time.time", loop.clock.wall)
    configure(timers.client)
    with expires(after=60):
        loop._run_ready(wait=False)
        [(_, scope)] = timers._timers
        assert scope.startswith(__file__)
    with pytest.raises(KeyError), expires(after=60, scope="raises"):
        raise KeyError
    assert nothing_comes(loop)


def test_a_long_name_is_cut_for_both_ends_alike(loop, timers):
    name = "\N{SNOWMAN}" * 10_000 + "#17"
    timers.ask(60, name)
    timers.client.release(name)
    assert nothing_comes(loop)
    timers.ask(60, name)
    assert next_expiry(loop).data["scope"].endswith("#17")


@pytest.mark.torch
def test_the_requests_of_torchs_client_are_read(loop, timers):
    from torch.distributed.elastic import timer

    client = timer.FileTimerClient(timers.path, signal.SIGTERM)
    timers.ask(60, client=client)
    assert next_expiry(loop).data["signal"] == "SIGTERM"
    timers.ask(60, client=client)
    client.release("step")
    assert nothing_comes(loop)


# -- uninterruptible sleep -------------------------------------------------------------------------


@pytest.fixture
def sleepers(loop, group):
    """The states of the two workers, by local rank; looks go on for 100 seconds."""
    states = {0: "S", 1: "S"}
    ranks = {worker.id: worker.local_rank for worker in group.workers}
    source = Sleepers(loop, group, 8.0, lambda pid: states[ranks[pid]])
    source.start()
    loop.call_later(100, source.close)
    yield states
    source.close()


def set_later(loop, states, when, rank, state):
    loop.call_later(when, lambda: states.update({rank: state}))


def test_a_worker_that_sleeps_for_too_long_is_told_of_once(loop, group, sleepers):
    set_later(loop, sleepers, 11, 1, "D")
    event = next_expiry(loop)
    assert loop.clock.now() == 20
    assert dict(event.data) == {
        "local_rank": 1,
        "pid": group.workers[1].id,
        "scope": "uninterruptible sleep",
        "after": 8.0,
        "signal": "SIGKILL",
    }
    assert nothing_comes(loop)


def test_one_that_wakes_up_between_is_not(loop, sleepers):
    for when in range(0, 100, 8):
        set_later(loop, sleepers, when, 1, "D")
        set_later(loop, sleepers, when + 5.5, 1, "R")  # seen at the third of four looks
    assert nothing_comes(loop)


def test_one_that_sleeps_again_is_told_of_again(loop, sleepers):
    for when, state in ((1, "D"), (15, "S"), (31, "D")):
        set_later(loop, sleepers, when, 1, state)
    assert [next_expiry(loop), loop.clock.now()][1] == 10
    assert [next_expiry(loop), loop.clock.now()][1] == 40


def test_one_that_has_ended_is_not_looked_at(loop, group, sleepers):
    group.exits[1] = "ended"
    sleepers[1] = "D"
    assert nothing_comes(loop)

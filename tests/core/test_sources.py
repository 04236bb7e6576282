"""Signals and ends of processes as events: real signals to this process, real children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.loop import Loop
from elastic_fsm.sources.exits import Exits, exit_status
from elastic_fsm.sources.signals import Signals, loop_with_signals


@pytest.fixture
def loop():
    made = Loop(SystemClock())
    yield made
    made.close()


# -- signals -----------------------------------------------------------------------------------


@pytest.fixture
def signals(loop):
    made = []

    def start(*names):
        source = Signals(loop, names)
        source.start()
        made.append(source)
        return source

    yield start
    for source in made:
        source.close()


def send(*names):
    for name in names:
        os.kill(os.getpid(), signal.Signals[name])


def received(loop, count):
    events = [loop.next_event() for _ in range(count)]
    assert {event.name for event in events} == {"signal_received"}
    return [event.data["signal"] for event in events]


def test_signals_come_in_their_order_and_before_older_events(loop, signals):
    signals("SIGUSR1", "SIGUSR2", "SIGUSR1")
    loop.post(Event("older"))
    send("SIGUSR2", "SIGUSR1", "SIGUSR1")
    assert received(loop, 3) == ["SIGUSR2", "SIGUSR1", "SIGUSR1"]
    assert loop.next_event().name == "older"


def test_a_signal_wakes_the_loop(loop, signals):
    signals("SIGUSR1")
    timer = threading.Timer(0.01, send, ["SIGUSR1"])
    timer.start()
    assert received(loop, 1) == ["SIGUSR1"]
    timer.join()


def test_what_was_ignored_before_stays_ignored(loop, signals):
    """As under nohup."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        source = signals("SIGUSR1", "SIGUSR2")
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        send("SIGUSR1", "SIGUSR2")
        assert received(loop, 1) == ["SIGUSR2"]
        source.close()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signals_that_nobody_asked_for_are_not_ours(loop, signals):
    got = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: got.append(number))
    try:
        signals("SIGUSR1")
        send("SIGUSR2", "SIGUSR1")
        assert received(loop, 1) == ["SIGUSR1"]
        assert got == [signal.SIGUSR2]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_everything_comes_back_at_the_end(loop):
    def mine(number, frame): ...

    read, write = socket.socketpair()
    write.setblocking(False)
    before = signal.signal(signal.SIGUSR1, mine)
    wakeup = signal.set_wakeup_fd(write.fileno())
    try:
        source = Signals(loop, ["SIGUSR1"])
        source.close()  # not started: nothing to give back
        source.start()
        assert signal.getsignal(signal.SIGUSR1) is not mine
        source.close()
        source.close()
        assert signal.getsignal(signal.SIGUSR1) is mine
        assert signal.set_wakeup_fd(wakeup) == write.fileno()
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGUSR1, before)
        read.close()
        write.close()


def test_a_signal_that_nobody_took_up_goes_to_whoever_had_it_before(loop):
    got = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    try:
        source = Signals(loop, ["SIGUSR1"])
        source.start()
        send("SIGUSR1", "SIGUSR1")
        assert got == []
        source.close()
        assert got == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_may_be_a_call_instead_of_an_event(loop, signals):
    called = []
    source = signals("SIGUSR1")
    source.call(signal.SIGURG, lambda: called.append("urgent"))
    send("SIGURG", "SIGUSR1")
    assert received(loop, 1) == ["SIGUSR1"]
    assert called == ["urgent"]
    source.close()
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


def test_a_call_leaves_alone_what_somebody_else_has(loop, signals):
    """A handler of the program's own, an ignore, a signal that is an event already."""
    source = signals("SIGUSR1")
    before = signal.signal(signal.SIGURG, signal.SIG_IGN)
    try:
        source.call(signal.SIGURG, lambda: pytest.fail("it was ignored"))
        source.call(signal.SIGUSR1, lambda: pytest.fail("it is an event"))
        assert signal.getsignal(signal.SIGURG) is signal.SIG_IGN
        send("SIGURG", "SIGUSR1")
        assert received(loop, 1) == ["SIGUSR1"]
    finally:
        signal.signal(signal.SIGURG, before)


def test_an_interrupt_while_signals_are_taken_up_goes_on(monkeypatch):
    """Ctrl-C between the making of a socket and its first setting: closing waits for nothing."""
    set_blocking, calls = socket.socket.setblocking, []

    def interrupted(self, flag):
        calls.append(self)
        if len(calls) == 3:  # two are the loop's
            raise KeyboardInterrupt
        set_blocking(self, flag)

    def receive(self, size, flags=0):
        assert flags or not self.getblocking(), "it would wait for ever"
        raise BlockingIOError

    before = signal.getsignal(signal.SIGUSR1)
    monkeypatch.setattr(socket.socket, "setblocking", interrupted)
    monkeypatch.setattr(socket.socket, "recv", receive)
    with pytest.raises(KeyboardInterrupt), loop_with_signals(["SIGUSR1"]):
        pass
    assert signal.getsignal(signal.SIGUSR1) is before


def test_in_another_thread_nothing_is_touched(loop):
    before = signal.getsignal(signal.SIGUSR1)
    told = []

    def start():
        source = Signals(loop, ["SIGUSR1"])
        source.start()
        told.append(source.available)
        source.close()

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert told == [False]
    assert signal.getsignal(signal.SIGUSR1) is before
    assert Signals(loop, []).available


# -- ends of processes -------------------------------------------------------------------------


@pytest.fixture
def child():
    """Start ``sh -c SCRIPT`` with a pipe as its input; all are gone afterwards."""
    children = []

    def start(script):
        popen = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE)
        children.append(popen)
        return popen

    yield start
    for popen in children:
        popen.stdin.close()
        popen.kill()
        popen.wait()


@pytest.fixture(params=[True, False], ids=["pidfd", "thread"])
def exits(request, loop):
    source = Exits(loop, pidfd=request.param)
    source.start()
    yield source
    source.close()


def end(popen):
    """Let a child that reads its input end; when this returns, it has, and is not reaped."""
    popen.stdin.close()
    os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill -TERM $$", -15)]
)
def test_an_end_is_told_once_and_the_child_is_not_reaped(loop, exits, child, script, code):
    told = []
    popen = child(script)
    exits.watch(popen.pid, lambda pid, exit_code: told.append((pid, exit_code)))
    assert loop.run_until(lambda: bool(told), 10)
    assert told == [(popen.pid, code)]
    assert exit_status(popen.pid) == code  # still there, still addressable
    os.kill(popen.pid, 0)
    assert popen.wait() == code
    with pytest.raises(ChildProcessError):
        exit_status(popen.pid)


def test_a_child_that_runs_has_no_status(child):
    assert exit_status(child("read x").pid) is None


def test_ends_of_one_turn_are_told_in_their_order(loop, child):
    source = Exits(loop)
    children = [child("read x; exit 0") for _ in range(4)]
    told = []
    for popen in children:
        source.watch(popen.pid, lambda pid, code: told.append(pid))
    order = [children[n] for n in (2, 0, 3, 1)]
    for popen in order:
        end(popen)
    assert loop.run_until(lambda: len(told) == 4, 10)
    assert told == [popen.pid for popen in order]
    source.close()


def test_whoever_is_forgotten_is_not_told_of(loop, exits, child):
    told = []
    forgotten, watched = child("read x"), child("read x; exit 5")
    for popen in (forgotten, watched):
        exits.watch(popen.pid, lambda pid, code: told.append((pid, code)))
    exits.forget(forgotten.pid)
    exits.forget(forgotten.pid)
    end(forgotten)
    end(watched)
    assert loop.run_until(lambda: bool(told), 10)
    loop.post(Event("after"))
    loop.next_event()
    assert told == [(watched.pid, 5)]


def test_no_descriptor_is_left(loop, child):
    before = os.listdir("/proc/self/fd")
    source = Exits(loop)
    children = [child("read x") for _ in range(3)]
    pipes = len(children)
    for popen in children:
        source.watch(popen.pid, lambda pid, code: None)
    assert len(os.listdir("/proc/self/fd")) == len(before) + pipes + 3
    source.close()
    assert len(os.listdir("/proc/self/fd")) == len(before) + pipes


def test_a_descriptor_is_given_back_when_the_end_has_been_acted_on(loop, child):
    exits, told, popen = Exits(loop), [], child("read x; exit 3")
    before = len(os.listdir("/proc/self/fd"))
    exits.watch(popen.pid, lambda pid, code: told.append(code))
    end(popen)
    for opened in (1, 0):
        loop.post(Event("next"))
        loop.next_event()
        assert len(os.listdir("/proc/self/fd")) == before - 1 + opened  # its pipe is closed
        assert told == [3]
    exits.close()


def test_a_number_is_watched_anew_before_its_descriptor_was_given_back(loop, child):
    """It may be that of another process already; the old descriptor is no news of that one."""
    exits, told, popen = Exits(loop), [], child("read x; exit 3")
    exits.watch(popen.pid, lambda pid, code: told.append("old"))
    end(popen)
    loop.post(Event("next"))
    loop.next_event()
    exits.watch(popen.pid, lambda pid, code: told.append("new"))
    assert loop.run_until(lambda: len(told) == 2, 10)
    assert told == ["old", "new"]
    exits.close()


def test_without_a_pidfd_a_thread_takes_over(loop, child, monkeypatch):
    """An old kernel, or no descriptor left."""

    def refuse(pid):
        raise OSError("out of descriptors")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    source, told = Exits(loop), []
    source.watch(child("exit 4").pid, lambda pid, code: told.append(code))
    assert loop.run_until(lambda: bool(told), 10)
    assert told == [4]

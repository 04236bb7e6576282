"""The console's thread: its life, its failures, and its sleep."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from elastic_fsm.logs import pump, tail
from elastic_fsm.logs.console import Console

WAIT = 30


def thread_status(console) -> str:
    return Path(f"/proc/self/task/{console._thread.native_id}/status").read_text()


def test_close_is_idempotent_and_ends_the_thread(scene):
    scene.console.close()
    scene.console.close()
    assert not scene.console._thread.is_alive()
    assert scene.console._thread.daemon
    assert scene.console.drain()


def test_no_descriptor_is_left_open_nor_inherited(tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    path = tmp_path / "log"
    path.write_bytes(b"x\n")
    null = os.open(os.devnull, os.O_WRONLY)
    for is_started in (True, False):
        reader, writer = os.pipe()
        console = Console(out_fd=writer, err_fd=null)
        console.follow(path, stream="stdout", prefix=b"")
        if is_started:
            console.start()
            assert console.drain(WAIT)
        for fd in set(os.listdir("/proc/self/fd")) - before:
            if os.path.exists(f"/proc/self/fd/{fd}"):
                assert fcntl.fcntl(int(fd), fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        console.close(WAIT)
        os.close(reader)
        os.close(writer)
    os.close(null)
    assert set(os.listdir("/proc/self/fd")) == before


def test_signals_stay_with_the_other_threads(scene):
    assert scene.console.drain(WAIT)
    blocked = int(re.search(r"SigBlk:\s*(\w+)", thread_status(scene.console))[1], 16)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD):
        assert blocked >> (number - 1) & 1
    assert not blocked >> (signal.SIGSEGV - 1) & 1


def test_a_failure_of_the_thread_is_kept_and_shown_once(scene, monkeypatch):
    def fail(self):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(pump.Pump, "_serve_files", fail)
    scene.console.say("wakes it")
    scene.err.await_data(b"RuntimeError: a mistake of ours\n")
    scene.console._thread.join(WAIT)
    assert isinstance(scene.console.error, RuntimeError)
    scene.console.say("goes on")
    scene.console.close(WAIT)
    _, err = scene.end()
    assert err.count(b"a mistake of ours") == 2  # the source line and the message of one traceback
    assert err.endswith(b"goes on\n")


def test_a_failure_of_the_thread_lets_nobody_wait(scene, monkeypatch):
    def fail(self):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(pump.Pump, "_settle_drains", fail)
    assert not scene.console.drain(WAIT)


@pytest.mark.parametrize("method", ["read", "end"])
def test_a_file_that_cannot_be_read_is_told_of_and_left(scene, monkeypatch, method):
    log, other = scene.log("bad"), scene.log("good")
    assert scene.console.drain(WAIT)
    works = getattr(tail.Tail, method)

    def fail(self):
        if self.path == log.path:
            raise OSError(5, "Input/output error")
        return works(self)

    monkeypatch.setattr(tail.Tail, method, fail)
    log.write(b"lost\n")
    if method == "end":  # which would read what is left, without `read`
        scene.console.finish(log.path)
    scene.err.await_data(b"cannot read %s any longer: Input/output error\n" % bytes(log.path))
    other.write(b"fine\n")
    assert b"[good] fine\n" in scene.end()[0]


def switches(console) -> int:
    """How often the thread has waited so far."""
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", thread_status(console), re.M)[1])


@pytest.mark.slow
def test_an_idle_console_never_wakes_up(scene):
    logs = [scene.log(str(n)) for n in range(8)]
    for log in logs:
        log.write(b"line\nand a part")
    scene.console.status(lambda: "not live, so it does not tick")
    scene.console.finish(logs[0].path)
    assert scene.console.drain(WAIT)
    time.sleep(0.1)  # nothing can be awaited: what is tested is that nothing happens
    before = switches(scene.console)
    time.sleep(1.5)
    assert switches(scene.console) == before


def test_words_are_queued_even_while_the_thread_is_held_up(tmp_path, scene_class):
    """More of them than the wake-up pipe has room for."""
    scene = scene_class(tmp_path, live_status=True)
    scene.console.start()
    held, let_go = threading.Event(), threading.Event()

    def hold() -> str:
        held.set()
        assert let_go.wait(WAIT)
        return ""

    scene.console.status(hold)
    assert held.wait(WAIT)
    for _ in range(70_000):
        scene.console.say("word")
    let_go.set()
    scene.console.status(None)
    assert scene.end()[1].count(b"word\n") == 70_000
    scene.clean_up()

"""Consoles that are slow, stopped, closed, full or odd."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from elastic_fsm.logs import pump, sink, tail
from elastic_fsm.logs.console import Console

WAIT = 30


@pytest.fixture(params=["pipe", "socket"])
def stopped(request):
    """A console whose standard output nobody reads yet; a socket cannot be opened again."""
    if request.param == "pipe":
        reader, out = os.pipe()
    else:
        reader, out = (end.detach() for end in socket.socketpair())
    err_reader, err = os.pipe()
    console = Console(out_fd=out, err_fd=err)
    console.start()
    yield console, reader, err_reader, out
    console.close(timeout=0)
    for fd in (reader, err_reader, out, err):
        os.close(fd)


def wait_until_full(fd: int) -> None:
    """Wait until a pipe takes nothing more."""
    deadline = time.monotonic() + WAIT
    while sink._is_writable(fd, 0):
        assert time.monotonic() < deadline
        os.sched_yield()


def test_a_stopped_console_does_not_hold_up_the_agent_nor_standard_error(stopped, tmp_path):
    console, reader, err_reader, out = stopped
    path = tmp_path / "log"
    path.write_bytes(b"x" * 99 + b"\n")
    with path.open("ab") as file:
        file.write((b"x" * 99 + b"\n") * 9999)
    console.follow(path, stream="stdout", prefix=b"")
    wait_until_full(out)
    start = time.monotonic()
    for n in range(1000):
        console.say(f"word {n}")
    assert time.monotonic() - start < 1
    words = b"".join(b"word %d\n" % n for n in range(1000))
    got = b""
    while len(got) < len(words):
        got += os.read(err_reader, 65536)
    assert got == words
    console.finish(path)
    assert not console.drain(timeout=0.01)
    size, got = 100 * 10_000, b""
    while len(got) < size:
        got += os.read(reader, 65536)
    assert console.drain(WAIT)
    assert got == (b"x" * 99 + b"\n") * 10_000


def test_what_a_stopped_console_does_not_take_stays_in_the_file(stopped, tmp_path):
    console, _, err_reader, out = stopped
    path = tmp_path / "log"
    path.write_bytes((b"x" * 99 + b"\n") * 100_000)
    console.follow(path, stream="stdout", prefix=b"")
    wait_until_full(out)
    for _ in range(50):
        console.say("makes the thread take a turn")
        assert os.read(err_reader, 100)
    assert console._pump._sink_of["stdout"].pending < pump.BACKLOG + 2 * tail.BLOCK


def test_close_with_a_timeout_gives_up_a_stopped_console(stopped, tmp_path):
    console, _, _, out = stopped
    path = tmp_path / "log"
    path.write_bytes((b"x" * 99 + b"\n") * 10_000)
    console.follow(path, stream="stdout", prefix=b"")
    wait_until_full(out)
    console.close(timeout=0.01)
    assert not console._thread.is_alive()


@pytest.fixture
def headless(tmp_path):
    """A console whose reader of standard output has gone away, like ``| head``."""
    reader, out = os.pipe()
    err_reader, err = os.pipe()
    os.close(reader)
    console = Console(out_fd=out, err_fd=err)
    console.start()
    yield console, err_reader
    console.close(timeout=WAIT)
    for fd in (err_reader, out, err):
        os.close(fd)


def test_a_closed_console_loses_its_output_and_nothing_else(headless, tmp_path):
    console, err_reader = headless
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * 100_000)
    console.follow(path, stream="stdout", prefix=b"")
    console.finish(path)
    assert console.drain(WAIT)
    console.say("still here")
    assert os.read(err_reader, 100) == b"still here\n"
    assert console.error is None


def test_head_ends_the_output_but_not_the_agent(tmp_path):
    """A process whose standard output is closed half way, with SIGPIPE at its deadly default."""
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * 100_000)
    program = f"""
import pathlib, signal
from elastic_fsm.logs.console import Console
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
console = Console()
console.start()
path = pathlib.Path({str(path)!r})
console.follow(path, stream="stdout", prefix=b"")
console.finish(path)
assert console.drain(20)
console.close()
console.say("the end")
"""
    agent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert agent.stdout is not None
    assert agent.stdout.read(5) == b"line\n"
    agent.stdout.close()
    _, err = agent.communicate(timeout=WAIT)
    assert (agent.returncode, err) == (0, b"the end\n")


def test_a_console_that_was_never_open(tmp_path):
    reader, err = os.pipe()
    closed = os.dup(err)
    os.close(closed)
    console = Console(out_fd=closed, err_fd=err)
    console.start()
    path = tmp_path / "log"
    path.write_bytes(b"line\n")
    console.follow(path, stream="stdout", prefix=b"")
    console.say("word")
    console.close(WAIT)
    assert os.read(reader, 1000).splitlines()[-1] in (
        b"word",
        b"standard output is lost: Bad file descriptor",
    )
    os.close(reader)
    os.close(err)


def test_a_full_disk_is_told_of_once(tmp_path):
    reader, err = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    console = Console(out_fd=full, err_fd=err)
    console.start()
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * 100_000)
    console.follow(path, stream="stdout", prefix=b"")
    console.close(WAIT)
    assert os.read(reader, 1000) == b"standard output is lost: No space left on device\n"
    for fd in (reader, err, full):
        os.close(fd)


def big_output_through(fd: int, reader: int, tmp_path, reader_class) -> bytes:
    """Echo a megabyte to ``fd`` (closed afterwards) with a reader that begins late."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %07d\n" % n for n in range(80_000)))
    console = Console(out_fd=fd, err_fd=fd)
    console.start()
    console.follow(path, stream="stdout", prefix=b"")
    wait_until_full(fd)
    other_end = reader_class(reader)
    console.close(WAIT)
    os.close(fd)
    assert other_end.await_end() == path.read_bytes()
    os.close(reader)


def test_a_descriptor_made_non_blocking_by_somebody_else(tmp_path, reader_class):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    big_output_through(writer, reader, tmp_path, reader_class)


def test_a_socket_which_cannot_be_opened_again(tmp_path, reader_class):
    ours, theirs = socket.socketpair()
    big_output_through(ours.detach(), theirs.detach(), tmp_path, reader_class)


def test_the_descriptors_flags_stay_as_they_were(scene):
    scene.console.say("word")
    assert scene.console.drain(WAIT)
    assert os.get_blocking(scene.out_fd)
    assert os.get_blocking(scene.err_fd)


def test_a_noisy_worker_does_not_starve_the_others(stopped, tmp_path, monkeypatch):
    """Every file is served a block in turn, so a small one waits for few blocks of a big one."""
    console, reader, _, out = stopped
    big, small = tmp_path / "big", tmp_path / "small"
    big.write_bytes((b"b" * 99 + b"\n") * 100_000)
    small.write_bytes(b"small\n")
    console.follow(big, stream="stdout", prefix=b"")
    wait_until_full(out)
    console.follow(small, stream="stdout", prefix=b"")
    got = b""
    while b"small\n" not in got:
        got += os.read(reader, 65536)
    assert len(got) < 2_000_000

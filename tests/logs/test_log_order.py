"""Many writers, and what comes before what: nothing lost, and the report after everything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import pytest

from elastic_fsm.logs.console import Console

WAIT = 30

WRITER = """
import os, sys
name, lines = sys.argv[1], int(sys.argv[2])
for n in range(lines):
    text = b"%s %06d %s\\n" % (name.encode(), n, b"x" * (n * 7 % 150))
    # Some lines come in two writes, as those of an unbuffered program do.
    cut = n % 13
    os.write(1, text[:cut])
    os.write(1, text[cut:])
"""


def start_writer(log, name: str, lines: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, name, str(lines)], stdout=log.fd)


@pytest.mark.slow
def test_many_writers_lose_cut_double_or_mix_no_line(scene):
    count, names = 5000, [f"w{n}" for n in range(8)]
    logs = {name: scene.log(name) for name in names}
    writers = [start_writer(logs[name], name, count) for name in names]
    while any(writer.poll() is None for writer in writers):
        scene.console.say("the agent's own words")
    for log in logs.values():
        scene.console.finish(log.path)
    assert scene.console.drain(WAIT)
    scene.console.say("the final report")
    out, err = scene.end()
    seen = dict.fromkeys(names, 0)
    for line in out.splitlines():
        match = re.fullmatch(rb"\[(w\d)\] \1 (\d{6}) (x*)", line)
        assert match, line
        name, n = match[1].decode(), int(match[2])
        assert n == seen[name]
        assert len(match[3]) == n * 7 % 150
        seen[name] = n + 1
    assert seen == dict.fromkeys(names, count)
    assert set(err.splitlines()) == {b"the agent's own words", b"the final report"}


def test_finish_then_drain_puts_all_output_before_the_report(tmp_path):
    """On one pipe (``2>&1``), so that the order can be seen."""
    reader, writer = os.pipe()
    console = Console(out_fd=writer, err_fd=writer)
    console.start()
    path = tmp_path / "log"
    path.write_bytes(b"line\n" * 100_000 + b"the last")
    got = bytearray()
    thread = threading.Thread(target=lambda: [got.extend(d) for d in read_all(reader)])
    thread.start()
    console.follow(path, stream="stdout", prefix=b"")
    console.finish(path)
    assert console.drain(WAIT)
    console.say("report")
    console.close(WAIT)
    os.close(writer)
    thread.join(WAIT)
    assert bytes(got) == b"line\n" * 100_000 + b"the last\nreport\n"


def read_all(fd: int):
    with open(fd, "rb", buffering=0) as file:
        while data := file.read(65536):
            yield data


def test_drain_waits_for_finished_files_only(scene):
    log = scene.log("0")
    log.write(b"unfinished, and not finished either")
    assert scene.console.drain(WAIT)


def test_words_before_start_and_after_close_are_written_directly(idle_scene):
    console = idle_scene.console
    console.say("before")
    idle_scene.err.await_data(b"before\n")
    console.start()
    console.say("during\nand more\n")
    console.close()
    console.say("after")
    assert idle_scene.end()[1] == b"before\nduring\nand more\nafter\n"

"""The status line, as a terminal shows it."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
import time

import pytest

from elastic_fsm.launchers.streams import open_log
from elastic_fsm.logs.console import Console

WAIT = 30


class Screen:
    """As much of a terminal as our output needs: rows, a cursor, erase row, cursor up."""

    def __init__(self, data: bytes) -> None:
        self.rows, self.row, self.column = [""], 0, 0
        for token in re.findall(r"\x1b\[[A-Z]|.", data.decode(), re.DOTALL):
            self._take(token)

    def _take(self, token: str) -> None:
        if token == "\r":
            self.column = 0
        elif token == "\n":
            self.row += 1
            self.rows += [""] * (self.row + 1 - len(self.rows))
        elif token == "\x1b[K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif token == "\x1b[A":
            self.row -= 1
        else:
            self._put(token)

    def _put(self, token: str) -> None:
        text = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = text[: self.column] + token + text[self.column + 1 :]
        self.column += 1


class Terminal:
    """A pseudo-terminal with a console on it for both streams."""

    def __init__(self, folder, reader_class, columns: int = 40) -> None:
        self.folder = folder
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.reader = reader_class(self.master)
        self.console = Console(out_fd=self.slave, err_fd=self.slave)
        self.console.start()

    def log(self, name: str) -> int:
        fd = open_log(self.folder / name)
        self.console.follow(self.folder / name, stream="stdout", prefix=f"[{name}] ".encode())
        return fd

    def end(self) -> list[str]:
        self.console.close(WAIT)
        os.close(self.slave)
        self.data = self.reader.await_end()
        os.close(self.master)
        return Screen(self.data).rows


@pytest.fixture
def terminal(tmp_path, monkeypatch, reader_class):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal(tmp_path, reader_class)


def shown(terminal: Terminal, last: bytes) -> list[str]:
    """The screen's rows after ``last`` has been written."""
    return Screen(terminal.reader.await_data(last)).rows


def test_the_status_is_below_the_output_and_gone_at_the_end(terminal):
    terminal.console.status("HEALTHY 4/4")
    terminal.console.say("one")
    terminal.console.say("two")
    assert terminal.console.drain(WAIT)
    assert shown(terminal, b"two\r\nHEALTHY 4/4")[-3:] == ["one", "two", "HEALTHY 4/4"]
    assert terminal.end() == ["one", "two", ""]


def test_workers_lines_go_above_the_status(terminal):
    log = terminal.log("0")
    terminal.console.status("HEALTHY")
    os.write(log, b"a line longer than the status\nx\n")
    assert shown(terminal, b"x\r\nHEALTHY") == [
        "[0] a line longer than the status",
        "[0] x",
        "HEALTHY",
    ]
    os.close(log)
    terminal.end()


def test_a_new_status_replaces_the_old_one_and_none_removes_it(terminal):
    terminal.console.status("a long status")
    assert shown(terminal, b"a long status") == ["a long status"]
    terminal.console.status("short")
    assert shown(terminal, b"short") == ["short"]
    terminal.console.status(None)
    terminal.console.say("word")
    assert shown(terminal, b"word\r\n") == ["word", ""]
    terminal.end()


def test_the_same_status_is_not_drawn_again(terminal):
    for _ in range(5):
        terminal.console.status("HEALTHY")
        assert terminal.console.drain(WAIT)
    terminal.end()
    assert terminal.data.count(b"HEALTHY") == 1


def test_the_status_is_cut_to_the_terminals_width(terminal):
    terminal.console.status("x" * 100 + "\nsecond row")
    assert shown(terminal, b"x" * 39) == ["x" * 39]
    assert terminal.end() == [""]


def test_a_status_of_two_rows_is_put_in_one(terminal):
    terminal.console.status("HEALTHY\n4 workers")
    assert shown(terminal, b"workers") == ["HEALTHY 4 workers"]
    terminal.end()


def test_a_progress_bar_goes_on_in_its_own_row_above_the_status(terminal):
    log = terminal.log("0")
    terminal.console.status("HEALTHY")
    os.write(log, b"10%\r")
    assert shown(terminal, b"\nHEALTHY") == ["[0] 10%", "HEALTHY"]
    os.write(log, b"20%\r")
    terminal.reader.await_data(b"20%\r")
    assert terminal.console.drain(WAIT)
    assert shown(terminal, b"20%\r\r\nHEALTHY") == ["[0] 20%", "HEALTHY"]
    terminal.console.say("agent")
    assert shown(terminal, b"agent\r\nHEALTHY") == ["[0] 20%", "agent", "HEALTHY"]
    os.close(log)
    assert terminal.end() == ["[0] 20%", "agent", ""]


def test_a_progress_bar_that_ends_below_a_status(terminal):
    log = terminal.log("0")
    terminal.console.status("HEALTHY")
    os.write(log, b"99%\r")
    assert shown(terminal, b"\nHEALTHY") == ["[0] 99%", "HEALTHY"]
    os.write(log, b"\nnext\n")
    assert shown(terminal, b"next\r\nHEALTHY") == ["[0] 99%", "[0] next", "HEALTHY"]
    os.close(log)
    terminal.end()


@pytest.mark.slow
def test_a_function_is_asked_once_a_second(terminal):
    start = time.monotonic()
    terminal.console.status(lambda: f"time {round(time.monotonic() - start)} s")
    assert shown(terminal, b"time 0 s") == ["time 0 s"]
    assert shown(terminal, b"time 1 s") == ["time 1 s"]
    assert 0.5 < time.monotonic() - start < 2
    terminal.end()


def test_a_function_that_fails_costs_the_status_and_nothing_else(terminal):
    def fail() -> str:
        raise ValueError("no state")

    terminal.console.status("HEALTHY")
    terminal.console.status(fail)
    terminal.console.say("word")
    assert terminal.console.drain(WAIT)
    terminal.console.say("more")
    rows = ["the status line is given up: ValueError('no state')", "word", "more", ""]
    assert shown(terminal, b"more\r\n") == rows
    assert terminal.end() == rows


@pytest.mark.parametrize("kind", ["dumb", None])
def test_no_status_on_a_pipe_nor_on_a_dumb_terminal(scene, terminal, monkeypatch, kind):
    scene.console.status("HEALTHY")
    scene.console.say("word")
    assert scene.end()[1] == b"word\n"
    monkeypatch.setenv("TERM", kind) if kind else monkeypatch.delenv("TERM")
    dumb = Console(out_fd=terminal.slave, err_fd=terminal.slave)
    dumb.status("HEALTHY")
    dumb.close()
    assert terminal.end() == [""]


def test_a_status_where_only_standard_error_is_a_terminal(tmp_path, reader_class):
    reader, out = os.pipe()
    master, slave = os.openpty()
    screen, pipe = reader_class(master), reader_class(reader)
    console = Console(out_fd=out, err_fd=slave, live_status=True)
    console.start()
    (tmp_path / "log").write_bytes(b"line\n")
    console.status("HEALTHY")
    console.follow(tmp_path / "log", stream="stdout", prefix=b"")
    console.close(WAIT)
    os.close(out)
    os.close(slave)
    assert pipe.await_end() == b"line\n"
    assert screen.await_end() == b"HEALTHY\r\x1b[K"
    for fd in (reader, master):
        os.close(fd)


def test_a_stopped_terminal_does_not_hold_up_the_agent(terminal):
    """Ctrl-S, which a pipe cannot do: the terminal takes nothing until Ctrl-Q."""
    termios.tcflow(terminal.slave, termios.TCOOFF)
    terminal.console.status("HEALTHY")
    terminal.console.say("word")
    assert not terminal.console.drain(0.05)
    termios.tcflow(terminal.slave, termios.TCOON)
    assert terminal.console.drain(WAIT)
    assert terminal.end() == ["word", ""]

"""The process that outlives the agent: when the agent dies, its workers die too.

Theory of operation. The guardian reads a pipe whose other end only the agent holds. The agent
writes the pid and start time of each worker, and ``done`` before an orderly end. End-of-file
without ``done`` means that the agent is gone, by SIGKILL or a crash; then everything that
descends from a worker is killed: what carries the mark in its environment, what sits in a
worker's session or group, and their descendants, again and again until nothing is found. Twice
nothing, because a process in the middle of an exec shows no mark. Out of its reach is what
cleared its environment *and* lost its parents before the agent died.

It costs one start of a bare interpreter beside the agent. A parent-death signal would need code
between fork and exec (2 ms for each worker) and reaches neither grandchildren nor sessions of
their own.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.launchers.procfs import all_stats, has_mark, read_stat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elastic_fsm.launchers.base import ExitWatcher
    from elastic_fsm.launchers.procfs import Stat

__all__ = ["Guardian", "main"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# What is still there after so long cannot be killed: it hangs in the kernel, or is another user's.
_ROUNDS = 1000
_PAUSE = 0.01
_EMPTY_LOOKS = 2
_MOST_STARTS = 3
_CODE = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from elastic_fsm.launchers.guardian import main; main(sys.argv[2], int(sys.argv[3]))"
)


class Guardian:
    """The agent's side: starts the guardian, keeps it informed, and replaces one that dies.

    ``exits`` tells of its death; without it nobody notices.
    """

    def __init__(self, mark: str, exits: ExitWatcher | None = None) -> None:
        self._mark = mark
        self._exits = exits
        self._workers: dict[int, int] = {}
        self._starts = 0
        self._process = self._start()

    @property
    def pid(self) -> int:
        """So that the agent does not take it for a stray of a worker."""
        return self._process.pid

    def add(self, pid: int) -> None:
        """A worker was started; the start time tells it from a later process of the same pid."""
        stat = read_stat(pid)
        self._workers[pid] = stat.started if stat else 0
        self._tell(f"{pid} {self._workers[pid]}\n")

    def forget(self, pid: int) -> None:
        """A worker was reaped; a guardian that is started from now on need not know of it."""
        self._workers.pop(pid, None)

    def dismiss(self) -> None:
        """The agent ends in good order; nothing is left to guard."""
        if self._exits is not None:
            self._exits.forget(self.pid)
        self._tell("done\n")
        self._close()

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).parents[2])
        self._starts += 1
        # Its own session and no terminal: what stops the agent must not stop its guardian.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CODE, root, self._mark, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        if self._exits is not None:
            self._exits.watch(process.pid, self._died)
        return process

    def _died(self, pid: int, exit_code: int) -> None:
        """Somebody killed it: another takes over. One that cannot live is not tried for ever."""
        self._close()
        if self._starts < _MOST_STARTS:
            self._process = self._start()
            for worker, started in self._workers.items():
                self._tell(f"{worker} {started}\n")

    def _close(self) -> None:
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        # A guardian that has died cannot be helped; the agent still cleans up after itself.
        with suppress(OSError, ValueError):
            assert self._process.stdin is not None
            os.write(self._process.stdin.fileno(), line.encode())


def main(mark: str, agent: int, pipe: int = 0) -> None:
    """The guardian's side: wait for the agent's end, then leave nothing of its workers."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    workers: dict[int, int] = {}
    for line in _lines(agent, pipe):
        if line == "done\n":
            return
        worker, started = line.split()
        workers[int(worker)] = int(started)
    _kill_all(workers, mark)


def _kill_all(workers: Mapping[int, int], mark: str) -> None:
    empty = 0
    for _ in range(_ROUNDS):
        victims = _victims(all_stats(), workers, mark)
        empty = 0 if victims else empty + 1
        if empty == _EMPTY_LOOKS:
            return
        for pid in victims:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _lines(agent: int, pipe: int) -> Iterator[str]:
    """What the agent says, until it is gone; a process that it forked may still hold the pipe."""
    poller = select.poll()
    poller.register(pipe, select.POLLIN)
    with suppress(OSError, AttributeError):
        poller.register(os.pidfd_open(agent), select.POLLIN)
    buffer = b""
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if pipe not in ready or not (data := os.read(pipe, 4096)):
            return
        *lines, buffer = (buffer + data).split(b"\n")
        yield from (f"{line.decode()}\n" for line in lines)


def _victims(stats: Mapping[int, Stat], workers: Mapping[int, int], mark: str) -> set[int]:
    """Living processes that belong to a worker."""
    ours = {pid for pid, started in workers.items() if _is_same(stats.get(pid), started)}
    found = {
        stat.pid
        for stat in stats.values()
        if stat.session in ours or stat.group in ours or has_mark(stat.pid, mark)
    }
    found |= _descendants(stats, found)
    return {pid for pid in found if not stats[pid].ended and pid != os.getpid()}


def _is_same(stat: Stat | None, started: int) -> bool:
    """A worker's pid still means that worker, or nobody: a pid in use as a session is kept."""
    return stat is None or stat.started == started


def _descendants(stats: Mapping[int, Stat], roots: set[int]) -> set[int]:
    found = set(roots)
    while more := {s.pid for s in stats.values() if s.parent in found and s.pid not in found}:
        found |= more
    return found

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
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from elastic_fsm.launchers.procfs import is_mounted, read_stat
from elastic_fsm.launchers.starters import ROOT, cannot_be_started

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.launchers.base import ExitWatcher

__all__ = ["Guardian"]

_MOST_STARTS = 3
_CLOSING_SECONDS = 1.0
_WHAT = "the guardian, which ends the workers when the agent dies"
_CODE = (
    "import sys; sys.path += sys.argv[3:]; "
    "from elastic_fsm.launchers.guarding import guard; guard(sys.argv[1], int(sys.argv[2]))"
)


def _warn(text: str) -> None:
    import logging  # slow to load, and hardly ever needed

    logging.getLogger("elastic_fsm").warning("%s", text)


class Guardian:
    """The agent's side: starts the guardian, keeps it informed, and replaces one that dies.

    ``exits`` tells of its death; without it nobody notices. ``say`` (None: the program's log) tells
    the user when there is none any more; the run goes on. Raises ``OSError`` where the first cannot
    be started.
    """

    def __init__(
        self,
        mark: str,
        exits: ExitWatcher | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        self._mark = mark
        self._exits = exits
        self._say = say or _warn
        self._workers: dict[int, int] = {}
        self._starts = 0
        self._is_lost = False
        self._process = self._start()

    @property
    def pid(self) -> int:
        """So that the agent does not take it for a stray of a worker."""
        return self._process.pid

    def add(self, pid: int) -> None:
        """A worker was started; the start time tells it from a later process of the same pid."""
        stat = read_stat(pid)
        self._workers[pid] = stat.started if stat else 0
        if self._is_lost:
            self._replace()
        else:
            self._tell_of(pid)

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
        code = [_CODE, self._mark, str(os.getpid()), *_folders()]
        try:
            # Its own session and no terminal: what stops the agent must not stop its guardian.
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", *code],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            raise cannot_be_started(error, _WHAT + ",", sys.executable) from error
        self._starts += 1
        if self._exits is not None:
            self._exits.watch(process.pid, self._died)
        return process

    def _died(self, pid: int, exit_code: int) -> None:
        """Somebody killed it. One that cannot live is not tried for ever."""
        self._close()
        if self._starts < _MOST_STARTS:
            self._replace()
        else:
            self._say(f"{_WHAT}, has died {self._starts} times: this run goes on without one")

    def _replace(self) -> None:
        """Another takes over; where none can be started, the next start of workers asks again."""
        was_lost = self._is_lost
        try:
            self._process = self._start()
        except OSError as error:
            self._is_lost = True
            if not was_lost:
                self._say(f"{error.strerror}; it is tried again when workers are started")
            return
        self._is_lost = False
        for worker in self._workers:
            self._tell_of(worker)

    def _tell_of(self, worker: int) -> None:
        self._tell(f"{worker} {self._workers[worker]}\n")

    def _close(self) -> None:
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_CLOSING_SECONDS)
        except subprocess.TimeoutExpired:  # somebody has stopped it
            self._process.kill()
            self._process.wait()

    def _tell(self, line: str) -> None:
        # A guardian that has died cannot be helped; the agent still cleans up after itself.
        with suppress(OSError, ValueError):
            assert self._process.stdin is not None
            os.write(self._process.stdin.fileno(), line.encode())


def _folders() -> list[str]:
    """Where the guardian's interpreter, which knows no site-packages, finds what it imports."""
    if is_mounted():
        return [ROOT]
    from elastic_fsm.launchers import by_psutil

    return [ROOT, by_psutil.FOLDER]

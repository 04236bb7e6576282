"""Commands of the user's that a step starts, such as a message to somebody.

Theory of operation. A command is started directly, never by a shell, in a session of its own. On
its standard input it finds the event, in a file without a name: a pipe could be full, and the
loop does not wait. What it writes goes to the agent's standard error. Its end is an event;
whatever it left in its group is killed then, and so is everything at its timeout.

At the end of the run what still goes on is killed, except for commands that were started on the
way into the final state: nothing would ever come of those, so they get their time.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.sources.base import CommandRunner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elastic_fsm.loop import Loop, Timer
    from elastic_fsm.sources.exits import Exits

__all__ = ["Commands"]

_KILL_SECONDS = 5.0


@dataclass(slots=True)
class _Running:
    name: str
    popen: subprocess.Popen[bytes]
    timer: Timer | None
    deadline: float | None
    is_last: bool
    reason: str = ""


class Commands(CommandRunner):
    """Starts commands; ``exits`` tells their ends.

    ``pids`` are those of the commands that run: children of the agent that are not workers.
    ``env`` is laid over the agent's environment.
    """

    def __init__(self, loop: Loop, exits: Exits) -> None:
        self.pids: set[int] = set()
        self.env: dict[str, str] = {}
        self._loop = loop
        self._exits = exits
        self._running: dict[int, _Running] = {}

    def start(self) -> None:
        """Nothing to do before the first command."""

    def run(
        self,
        name: str,
        argv: Sequence[str],
        given: bytes,
        *,
        timeout: float | None,
        is_last: bool = False,
    ) -> None:
        """See :meth:`CommandRunner.run`."""
        try:
            popen = _popen(argv, given, {**os.environ, **self.env})
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126
            self._tell(name, code, f"cannot be started: {error.strerror}: {argv[0]}")
            return
        running = _Running(name, popen, None, None, is_last)
        if timeout is not None:
            running.deadline = self._loop.clock.now() + timeout
            running.timer = self._loop.call_later(timeout, lambda: self._time_out(running, timeout))
        self._running[popen.pid] = running
        self.pids.add(popen.pid)
        self._exits.watch(popen.pid, self._ended)

    def close(self) -> None:
        """Wait for the last commands, kill the others; reap them all."""
        for running in self._running.values():
            if not running.is_last:
                _kill_group(running.popen.pid)
        limit = self._loop.clock.now() + _KILL_SECONDS
        deadlines = [limit, *(r.deadline or limit for r in self._running.values() if r.is_last)]
        self._loop.run_until(lambda: not self._running, max(deadlines) - self._loop.clock.now())
        for pid in list(self._running):  # what even SIGKILL does not end, or had no timeout
            _kill_group(pid)
            self._exits.forget(pid)
            self._forget(pid)

    def _time_out(self, running: _Running, timeout: float) -> None:
        running.reason = f"took longer than {timeout:g} s"
        _kill_group(running.popen.pid)

    def _ended(self, pid: int, exit_code: int) -> None:
        _kill_group(pid)  # its leader is not reaped yet, so the number is still its own
        running = self._running[pid]
        self._forget(pid)
        self._tell(running.name, exit_code, running.reason)

    def _forget(self, pid: int) -> None:
        running = self._running.pop(pid)
        self.pids.discard(pid)
        if running.timer is not None:
            running.timer.cancel()
        with suppress(subprocess.TimeoutExpired):
            running.popen.wait(_KILL_SECONDS)

    def _tell(self, name: str, exit_code: int, reason: str) -> None:
        event = "command_failed" if exit_code or reason else "command_finished"
        data = {"name": name, "exit_code": exit_code, "reason": reason}
        self._loop.post(Event(event, data))


def _popen(argv: Sequence[str], given: bytes, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with _file_without_a_name() as stdin:
        stdin.write(given)
        stdin.seek(0)
        return subprocess.Popen(argv, stdin=stdin, stdout=2, env=env, start_new_session=True)


def _file_without_a_name() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("event"), "w+b")
    import tempfile  # slow to load

    return tempfile.TemporaryFile()


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

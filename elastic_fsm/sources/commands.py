"""Commands of the user's that a step starts, such as a message to somebody.

Theory of operation. A command is started directly, never by a shell, in a session of its own. On
its standard input it finds the event, in a file without a name: a pipe could be full, and the
loop does not wait. What it writes goes to the console in whole lines, the last of which is told
if it fails. Its end is an event; whatever it left in its group is killed then, and so is
everything at its timeout.

At the end of the run what still goes on is killed, except for commands that were started on the
way into the final state: nothing would ever come of those, so they get their time. That must be
limited, since nobody listens to a signal any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.failures import start_code
from elastic_fsm.sources.base import CommandRunner
from elastic_fsm.sources.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from elastic_fsm.loop import Loop, Timer
    from elastic_fsm.sources.base import Command
    from elastic_fsm.sources.exits import Exits

__all__ = ["Commands"]

_KILL_SECONDS = 5.0
_LAST_SECONDS = 10.0
"""What a last command without a limit of its own may take; docs/own_machine.md says so."""


@dataclass(slots=True)
class _Running:
    command: Command
    popen: subprocess.Popen[bytes]
    output: Output
    timer: Timer | None = None
    reason: str = ""


class Commands(CommandRunner):
    """Starts commands; ``exits`` tells their ends, ``say`` gets what they write.

    ``pids`` are those of the commands that run: children of the agent that are not workers.
    ``env`` is laid over the agent's environment.
    """

    def __init__(self, loop: Loop, exits: Exits, say: Callable[[str], None]) -> None:
        self.pids: set[int] = set()
        self.env: dict[str, str] = {}
        self._loop = loop
        self._exits = exits
        self._say = say
        self._running: dict[int, _Running] = {}

    def start(self) -> None:
        """Nothing to do before the first command."""

    def run(self, command: Command) -> None:
        """See :meth:`CommandRunner.run`."""
        try:
            running = self._start(command)
        except OSError as error:
            code = start_code(error)
            reason = f"cannot be started: {error.strerror}: {command.argv[0]}"
            self._tell(command.name, code, reason)
            return
        pid = running.popen.pid
        self._running[pid] = running
        if command.timeout is not None:
            self._limit(running, command.timeout)
        self.pids.add(pid)
        self._exits.watch(pid, self._ended)

    def close(self) -> None:
        """Wait for the last commands, kill the others; reap them all."""
        for pid, running in self._running.items():
            if not running.command.is_last:
                running.reason = "was killed at the end of the run"
                _kill_group(pid)
            elif running.timer is None:
                self._limit(running, _LAST_SECONDS)
        timers = [running.timer.when for running in self._running.values() if running.timer]
        now = self._loop.clock.now()
        self._loop.run_until(lambda: not self._running, max([now, *timers]) - now + _KILL_SECONDS)
        for pid, running in list(self._running.items()):  # what even SIGKILL does not end
            self._exits.forget(pid)
            self._forget(pid)
            self._tell(running.command.name, -signal.SIGKILL, "could not be killed")

    def _start(self, command: Command) -> _Running:
        output = Output(self._loop, self._say)
        try:
            popen = _popen(command, output, {**os.environ, **self.env})
        except OSError:
            output.close()
            raise
        finally:
            output.is_held()
        return _Running(command, popen, output)

    def _limit(self, running: _Running, seconds: float) -> None:
        def time_out() -> None:
            running.reason = f"took longer than {seconds:g} s"
            _kill_group(running.popen.pid)

        running.timer = self._loop.call_later(seconds, time_out)

    def _ended(self, pid: int, exit_code: int) -> None:
        _kill_group(pid)  # its leader is not reaped yet, so the number is still its own
        running = self._running[pid]
        self._forget(pid)
        self._tell(running.command.name, exit_code, running.reason, running.output.last_line)

    def _forget(self, pid: int) -> None:
        running = self._running.pop(pid)
        self.pids.discard(pid)
        running.output.close()
        if running.timer is not None:
            running.timer.cancel()
        with suppress(subprocess.TimeoutExpired):
            running.popen.wait(_KILL_SECONDS)

    def _tell(self, name: str, exit_code: int, reason: str, last_line: str = "") -> None:
        event = "command_failed" if exit_code or reason else "command_finished"
        data = {"name": name, "exit_code": exit_code, "reason": reason, "last_line": last_line}
        self._loop.post(Event(event, data))


def _popen(command: Command, output: Output, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with _file_without_a_name() as stdin:
        stdin.write(command.given)
        stdin.seek(0)
        return subprocess.Popen(
            command.argv,
            stdin=stdin,
            stdout=output.write_end,
            stderr=output.write_end,
            env=env,
            start_new_session=True,
        )


def _file_without_a_name() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("event"), "w+b")
    import tempfile  # slow to load

    return tempfile.TemporaryFile()


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

"""How a worker is born: the one thing in which commands, functions and forks differ.

A starter makes a process in a session of its own, with the streams and the environment that it
is given. All else about a worker (its end, its signals, what it leaves behind) is the same for
all and is the launcher's.
"""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.launchers.functions import Outcome
    from elastic_fsm.launchers.streams import Streams

__all__ = [
    "ROOT",
    "Child",
    "CommandStarter",
    "NotReady",
    "Starter",
    "cannot_be_started",
    "open_process",
]

ROOT = str(Path(__file__).parents[2])
"""Where the package is found by an interpreter that knows nothing of the agent's path."""


class Child:
    """A process that has been born and not been reaped.

    ``reap`` takes its status. One with a ``hold`` (the writing end of a pipe) runs nothing of the
    user's before :meth:`go`, and ends when the agent does. ``outcome`` is what a function leaves.
    """

    __slots__ = ("_hold", "_reap", "outcome", "pid")

    def __init__(
        self,
        pid: int,
        reap: Callable[[], object],
        *,
        hold: int | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self.pid = pid
        self._reap = reap
        self.outcome = outcome
        self._hold = hold

    def go(self) -> None:
        """It has been noted by all who must know of it: let it run."""
        if self._hold is not None:
            with suppress(OSError):  # ended already
                os.write(self._hold, b"g")
            os.close(self._hold)
            self._hold = None

    def close(self) -> None:
        """It has ended: reap it, and give back what belonged to it."""
        with suppress(ChildProcessError):  # somebody else in this program was faster
            self._reap()
        if self.outcome is not None:
            self.outcome.close()


class NotReady(Exception):
    """What makes the workers was lost, and is being made anew: ask again when it is ready."""


class Starter(ABC):
    """Makes processes for a launcher.

    When a start takes long, the loop ``takes_turns`` with it: it is served after each worker.
    """

    takes_turns = False

    @property
    def pids(self) -> Collection[int]:
        """Children of the agent that are no workers."""
        return ()

    def open(self, marking: Mapping[str, str]) -> None:  # noqa: B027 (most need nothing)
        """The launcher is there; ``marking`` is for the environment of whatever is started."""

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back when workers can be started: at once, or later from the loop."""
        callback()

    @abstractmethod
    def start(self, worker: WorkerPlan, env: Mapping[str, str], streams: Streams) -> Child:
        """Start a worker; ``env`` is all of its environment.

        Raises ``OSError`` when that is not possible, and :class:`NotReady`.
        """

    def close(self) -> None:  # noqa: B027 (most need nothing)
        """Nothing more will be started; calling it again does nothing."""


class CommandStarter(Starter):
    """Commands, each in a process of its own."""

    def start(self, worker: WorkerPlan, env: Mapping[str, str], streams: Streams) -> Child:
        """See :meth:`Starter.start`."""
        popen = open_process(worker.argv, env, streams, cwd=worker.cwd)
        return Child(popen.pid, popen.wait)


def open_process(
    argv: Sequence[str],
    env: Mapping[str, str],
    streams: Streams,
    *,
    cwd: str | None,
    passed: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """A command in a session of its own, with ``passed`` left open for it."""
    return subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
        start_new_session=True,
        pass_fds=passed,
    )


def cannot_be_started(error: OSError, what: str, program: str) -> OSError:
    """The same error, but who hears of it need not know ``what`` the process was for."""
    text = f"{what} cannot be started: {error.strerror or error}"
    if isinstance(error, PermissionError):
        text += "; make executable for this user"
    return OSError(error.errno, text, program)

"""The agent's side of the zygote (see ``zygote``): workers that need not import anything again.

The zygote is started with the launcher and imports while the nodes still meet. When it dies,
another takes its place, and workers that run are not concerned. They are children of the agent
like any others, for the agent is the subreaper of all that descends from it.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.functions import Outcome, pack_call, unnamed_file
from elastic_fsm.launchers.plan import interpreter
from elastic_fsm.launchers.starters import ROOT, Child, NotReady, Starter, cannot_be_started

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.launchers.base import ExitWatcher, WorkerPlan
    from elastic_fsm.launchers.streams import Streams
    from elastic_fsm.loop import Loop, Timer

__all__ = ["ForkServerStarter", "python_task"]

_CODE = (
    "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv[1]]; "
    "from elastic_fsm.launchers.zygote import main; "
    "sys.path.pop(); main(int(sys.argv[2]), *sys.argv[3:])"
)
_WHAT = "the process that forks the workers"
_MOST_STARTS = 3
_RETRY_SECONDS = 1.0
_ANSWER_SECONDS = 10.0


class ForkServerStarter(Starter):
    """Python scripts, modules and functions, each in a fork of a process that is ready for them.

    ``preload`` are the modules that it imports, ``env`` what all workers' environments share
    (libraries read some of it when they are imported). ``say`` tells the user what may go wrong.
    """

    takes_turns = True

    def __init__(
        self,
        loop: Loop,
        exits: ExitWatcher,
        *,
        preload: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._loop = loop
        self._exits = exits
        self._preload = tuple(preload)
        self._env = dict(env or {})
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._ready = False
        self._broken = ""  # why there will be no zygote any more
        self._starts = 0  # in vain, in a row
        self._waiting: Callable[[], None] | None = None
        self._retry: Timer | None = None

    @property
    def pids(self) -> list[int]:
        """See :attr:`Starter.pids`."""
        return [] if self._process is None else [self._process.pid]

    def open(self, marking: Mapping[str, str]) -> None:
        """See :meth:`Starter.open`."""
        self._env |= marking
        self._launch()

    def when_ready(self, callback: Callable[[], None]) -> None:
        """See :meth:`Starter.when_ready`."""
        self._waiting = callback
        if self._ready or self._broken:
            self._wake()

    def start(self, worker: WorkerPlan, env: Mapping[str, str], streams: Streams) -> Child:
        """See :meth:`Starter.start`."""
        if self._broken:
            raise OSError(errno.ENOEXEC, self._broken, "launcher.preload")
        if not self._ready:
            raise NotReady
        with ExitStack() as files, ExitStack() as in_vain:
            order = files.enter_context(unnamed_file("order"))
            outcome = Outcome() if worker.function is not None else None
            if outcome is not None:
                in_vain.callback(outcome.close)
            passed = _write_order(order, worker, env)
            held, hold = os.pipe()
            files.callback(os.close, held)
            in_vain.callback(os.close, hold)
            given = [order.fileno(), held, *streams.descriptors(files)]
            given += [] if outcome is None else [outcome.fileno(), *passed]
            pid = self._ask(given)
            in_vain.pop_all()
        self._starts = 0
        return Child(pid, partial(os.waitpid, pid, 0), hold=hold, outcome=outcome)

    def close(self) -> None:
        """See :meth:`Starter.close`."""
        self._waiting = None
        if self._retry is not None:
            self._retry.cancel()
        if self._process is not None:
            self._exits.forget(self._process.pid)
            self._process.kill()
            self._let_go()

    def _ask(self, descriptors: Sequence[int]) -> int:
        """Have a worker forked; its pid. The zygote has nothing else to do: it answers at once."""
        assert self._control is not None
        assert self._process is not None
        try:
            socket.send_fds(self._control, [b"fork"], descriptors)
            answer = self._control.recv(64)
        except OSError:  # dead, or it does not answer
            answer = b""
        if not answer:
            self._ready = False
            self._process.kill()
            raise NotReady
        if (number := int(answer)) < 0:
            raise OSError(-number, os.strerror(-number))
        return number

    def _launch(self) -> None:
        python = interpreter()
        with ExitStack() as undo:
            try:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                undo.callback(ours.close)
                with theirs:
                    self._process = self._open_process(python, theirs.fileno())
            except OSError as error:
                raise cannot_be_started(error, _WHAT, python) from error
            undo.pop_all()
        self._starts += 1
        self._control = ours
        self._control.settimeout(_ANSWER_SECONDS)
        self._loop.watch(self._control, self._told)
        self._exits.watch(self._process.pid, self._died)

    def _open_process(self, python: str, control: int) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(sys.path)
        return subprocess.Popen(
            [python, "-c", _CODE, ROOT, str(control), path, *self._preload],
            env={**os.environ, **self._env},
            stdin=subprocess.DEVNULL,
            stdout=2,  # what an import prints is not the output of any worker
            start_new_session=True,
            pass_fds=[control],
        )

    def _replace(self, *, is_first: bool = True) -> None:
        """Another takes over; where none can be started, every second: workers run without."""
        try:
            self._launch()
        except OSError as error:
            if is_first:
                self._say(f"{error.strerror}; it is tried again every second")
            retry = partial(self._replace, is_first=False)
            self._retry = self._loop.call_later(_RETRY_SECONDS, retry)

    def _told(self) -> None:
        """The first and only thing that it says unasked is how the imports went."""
        assert self._control is not None
        try:
            message = self._control.recv(65536)
        except OSError:
            message = b""
        if not message:
            self._loop.unwatch(self._control)  # it is dead: that is told, too
            return
        report: dict[str, Any] = json.loads(message)
        if "error" in report:
            self._give_up(report["error"])
            return
        self._warn(report)
        self._ready = True
        self._wake()

    def _warn(self, report: Mapping[str, Any]) -> None:
        names = ", ".join(self._preload)
        if report["threads"]:
            self._say(
                f"launcher.preload: importing {names} left {report['threads']} threads running; "
                "workers do not get them, and may wait for ever for what they hold"
            )
        if report["cuda"]:
            self._say(
                f"launcher.preload: importing {names} has initialised CUDA, which no fork can use"
            )

    def _died(self, pid: int, exit_code: int) -> None:
        self._let_go()
        if self._broken:
            return
        if self._starts < _MOST_STARTS:
            self._replace()
        else:
            self._give_up(f"{_WHAT} ended with {exit_code}, repeatedly")

    def _give_up(self, why: str) -> None:
        self._broken = why
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None:
            callback, self._waiting = self._waiting, None
            callback()

    def _let_go(self) -> None:
        assert self._control is not None
        assert self._process is not None
        self._ready = False
        self._loop.unwatch(self._control)
        self._control.close()
        with suppress(ChildProcessError):
            self._process.wait()
        self._process = None


def _write_order(file: Any, worker: WorkerPlan, env: Mapping[str, str]) -> list[int]:
    task = ("function", "") if worker.function is not None else python_task(worker.argv)
    pickle.dump({"env": dict(env), "cwd": worker.cwd, "task": task}, file)
    passed: list[int] = []
    if worker.function is not None:
        passed = pack_call(file, worker.function, worker.args, worker.cwd)
    file.flush()
    file.seek(0)
    return passed


def python_task(argv: Sequence[str]) -> tuple[str, ...]:
    """What an interpreter is told to do: ``("module", name, …)`` or ``("script", path, …)``.

    Raises ``OSError`` for a command that is not an interpreter's.
    """
    _, *words = argv
    while words and words[0] == "-u":
        del words[0]
    if words[:1] == ["-m"] and len(words) > 1:
        return ("module", *words[1:])
    if words and words[0].endswith(".py"):
        return ("script", *words)
    raise OSError(errno.ENOEXEC, "launcher=forkserver runs Python files and modules", argv[0])

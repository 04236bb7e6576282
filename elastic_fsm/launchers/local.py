"""Workers as processes of this machine, each a command in a session of its own."""

from __future__ import annotations

import os
import secrets
import signal as signals
import subprocess
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.launchers.base import Launcher
from elastic_fsm.launchers.guardian import Guardian
from elastic_fsm.launchers.oom import explain_sigkill, oom_kills
from elastic_fsm.launchers.stopping import Stop, signal_group
from elastic_fsm.launchers.strays import Strays

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from elastic_fsm.launchers.base import ExitWatcher, LaunchPlan, WorkerPlan
    from elastic_fsm.loop import Loop, Timer

__all__ = ["MARK", "SubprocessLauncher"]

MARK = "ELASTIC_FSM_WORKER"
"""Environment variable by which everything that a worker starts can be found again."""

_CLOSE_SECONDS = 5.0
_ORPHANS_SECONDS = 1.0


class _Process:
    """A worker that was started and has not been reaped."""

    __slots__ = ("exit_code", "plan", "popen", "stopped_by_agent", "told")

    def __init__(self, plan: WorkerPlan, popen: subprocess.Popen[bytes]) -> None:
        self.plan = plan
        self.popen = popen
        self.exit_code: int | None = None
        self.stopped_by_agent = False
        self.told = ""  # the last signal that it was sent without being stopped


class SubprocessLauncher(Launcher):
    """Starts commands with ``subprocess``.

    ``exits`` tells their ends. ``kill_timeout`` is the time in seconds from SIGKILL to giving
    up. ``sole_owner`` says that the process has no other children than the launcher's, but for
    ``bystanders``: pids that are left alone, looked at each time anew.
    """

    def __init__(
        self,
        loop: Loop,
        exits: ExitWatcher,
        *,
        kill_timeout: float | None = _CLOSE_SECONDS,
        sole_owner: bool = False,
        bystanders: Collection[int] = (),
    ) -> None:
        self._loop = loop
        self._exits = exits
        self._kill_timeout = kill_timeout
        self._mark = secrets.token_hex(8)
        self._processes: dict[int, _Process] = {}
        self._attempt = -1
        self._stop: Stop | None = None
        self._oom_kills: int | None = None
        self._look: Timer | None = None
        self._strays = Strays(self._mark, sole_owner=sole_owner)
        self._strays.adopt()
        self._guardian: Guardian | None = Guardian(self._mark, exits)
        self._bystanders = bystanders

    def start(self, plan: LaunchPlan) -> None:
        """See :meth:`Launcher.start`."""
        self._attempt = plan.attempt
        self._oom_kills = oom_kills()
        self._reap()
        for worker in plan.workers:
            try:
                self._start_one(worker)
            except OSError as error:
                self._post_failed_start(worker, error)
                return
        pids = [process.popen.pid for process in self._processes.values()]
        self._post("workers_started", pids=pids)

    def stop(self, attempt: int, signal: str, grace: float | None) -> None:
        """See :meth:`Launcher.stop`."""
        self._attempt = attempt
        if self._stop is None:
            self._note_who_is_alive()
            self._stop = self._new_stop()
            self._stop.begin(signals.Signals[signal], grace)

    def signal(self, signal: str, local_rank: int | None = None) -> int:
        """See :meth:`Launcher.signal`."""
        chosen = [
            pid
            for pid, process in self._processes.items()
            if local_rank in (None, process.plan.local_rank) and self._is_alive(pid)
        ]
        for pid in chosen:
            self._processes[pid].told = signal
            signal_group(pid, signals.Signals[signal])
        return len(chosen)

    def kill(self) -> None:
        """See :meth:`Launcher.kill`."""
        if self._stop is not None:
            self._stop.kill()

    def _explain(self, exit_code: int, told: str) -> str:
        """Where a deadly signal may have come from."""
        if told and exit_code == -signals.Signals[told]:
            return "sent by the agent, as the machine or a scenario asked"
        if exit_code == -signals.SIGKILL:
            return explain_sigkill(self._oom_kills, oom_kills())
        return ""

    def child_ended(self) -> None:
        """Perhaps an orphan of a worker, which nobody else would reap: look, a second later.

        So a restart waits for nothing, and a burst of ends costs one look.
        """
        if self._look is None:
            self._look = self._loop.call_later(_ORPHANS_SECONDS, self._reap_orphans)

    def _reap_orphans(self) -> None:
        self._look = None
        if self._stop is None and self._guardian is not None:
            self._strays.find({*self._processes, *self._others()}, self._processes)

    def close(self) -> list[int]:
        """See :meth:`Launcher.close`."""
        if self._guardian is None:
            return []
        stuck: list[int] = []
        if self._stop is not None:
            self._stop.abandon()
        self._stop = stop = self._new_stop(stuck.extend)
        stop.kill()
        self._loop.run_until(lambda: self._stop is not stop, 2 * _CLOSE_SECONDS)
        self._strays.release()
        self._guardian.dismiss()
        self._guardian = None
        return stuck

    def _start_one(self, worker: WorkerPlan) -> None:
        with ExitStack() as files:
            popen = subprocess.Popen(
                worker.argv,
                env={**os.environ, **worker.env, **self.marking},
                cwd=worker.cwd,
                stdin=None if worker.stdin else subprocess.DEVNULL,
                stdout=_output(worker.stdout, files),
                stderr=_output(worker.stderr, files),
                start_new_session=True,
            )
        self._processes[popen.pid] = _Process(worker, popen)
        if self._guardian is not None:
            self._guardian.add(popen.pid)
        self._exits.watch(popen.pid, self._ended)

    @property
    def marking(self) -> dict[str, str]:
        """The variable by which the guardian finds what must not survive the agent."""
        # An agent inside a worker adds its mark to the outer one, so that both find its workers.
        outer = os.environ.get(MARK)
        return {MARK: f"{outer}:{self._mark}" if outer else self._mark}

    def _post_failed_start(self, worker: WorkerPlan, error: OSError) -> None:
        code = 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126
        reason = f"cannot be started: {error.strerror}: {error.filename or worker.argv[0]}"
        self._post_exit(worker.local_rank, 0, code, reason=reason)

    def _ended(self, pid: int, exit_code: int) -> None:
        process = self._processes[pid]
        process.exit_code = exit_code
        stopped = process.stopped_by_agent
        reason = "" if stopped else self._explain(exit_code, process.told)
        self._post_exit(
            process.plan.local_rank, pid, exit_code, stopped_by_agent=stopped, reason=reason
        )
        if self._stop is not None:
            self._stop.advance()

    def _note_who_is_alive(self) -> None:
        """Only those that are alive now are later called stopped by the agent.

        The kernel may know of ends that the loop has not been told yet.
        """
        for pid, process in self._processes.items():
            process.stopped_by_agent = self._is_alive(pid)

    def _is_alive(self, pid: int) -> bool:
        if self._processes[pid].exit_code is not None:
            return False
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, pid, flags) is None
        return False

    def _new_stop(self, on_stuck: Any = None) -> Stop:
        def done(stuck: list[int]) -> None:
            self._stop = None
            self._reap()
            if on_stuck is not None:
                on_stuck(stuck)
            elif stuck:
                self._post("workers_stuck", pids=stuck)
            else:
                self._post("workers_stopped")

        return Stop(
            loop=self._loop,
            exits=self._exits,
            strays=self._strays,
            leaders=list(self._processes),
            others=self._others,
            is_alive=lambda pid: self._processes[pid].exit_code is None,
            kill_timeout=self._kill_timeout,
            on_done=done,
        )

    def _others(self) -> list[int]:
        """Children that are no workers."""
        return [*self._bystanders, *([self._guardian.pid] if self._guardian else [])]

    def _reap(self) -> None:
        for pid, process in list(self._processes.items()):
            if process.exit_code is not None:
                process.popen.wait()
                del self._processes[pid]
                if self._guardian is not None:
                    self._guardian.forget(pid)

    def _post_exit(
        self,
        local_rank: int,
        pid: int,
        code: int,
        *,
        stopped_by_agent: bool = False,
        reason: str = "",
    ) -> None:
        self._post(
            "worker_exited",
            local_rank=local_rank,
            pid=pid,
            exit_code=code,
            stopped_by_agent=stopped_by_agent,
            reason=reason,
        )

    def _post(self, name: str, **data: Any) -> None:
        self._loop.post(Event(name, data, attempt=self._attempt))


def _output(path: Path | None, files: ExitStack) -> int | None:
    """The descriptor of a worker's log; the worker keeps it, the agent's own copy is closed."""
    if path is None:
        return None
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    files.callback(os.close, descriptor)
    return descriptor

"""Workers as processes of this machine, each in a session of its own."""

from __future__ import annotations

import os
import secrets
import signal as signals
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.failures import start_code
from elastic_fsm.launchers.base import Launcher
from elastic_fsm.launchers.births import Births
from elastic_fsm.launchers.guardian import Guardian
from elastic_fsm.launchers.handlers import caught_signals
from elastic_fsm.launchers.oom import oom_kills
from elastic_fsm.launchers.results import Results
from elastic_fsm.launchers.running import Running
from elastic_fsm.launchers.starters import CommandStarter
from elastic_fsm.launchers.stopping import Stop
from elastic_fsm.launchers.strays import Strays
from elastic_fsm.launchers.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from elastic_fsm.launchers.base import ExitWatcher, LaunchPlan, WorkerPlan
    from elastic_fsm.launchers.starters import Starter
    from elastic_fsm.loop import Loop, Timer

__all__ = ["MARK", "SubprocessLauncher"]

MARK = "ELASTIC_FSM_WORKER"
"""Environment variable by which everything that a worker starts can be found again."""

_CLOSE_SECONDS = 5.0
_ORPHANS_SECONDS = 1.0


class SubprocessLauncher(Launcher):
    """Runs what its ``starter`` makes: commands, unless it is given another one.

    ``exits`` tells their ends. ``kill_timeout`` is the time in seconds from SIGKILL to giving
    up. ``sole_owner`` says that the process has no other children than the launcher's, but for
    ``bystanders``: pids that are left alone, looked at each time anew. ``say`` (None: the program's
    log) tells the user of a guardian that is lost.

    Raises ``OSError`` where the processes that it needs itself cannot be started.
    """

    def __init__(
        self,
        loop: Loop,
        exits: ExitWatcher,
        *,
        kill_timeout: float | None = _CLOSE_SECONDS,
        sole_owner: bool = False,
        bystanders: Collection[int] = (),
        starter: Starter | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        self._loop = loop
        self._exits = exits
        self._kill_timeout = kill_timeout
        self._mark = secrets.token_hex(8)
        self._processes: dict[int, Running] = {}
        self._attempt = -1
        self._stop: Stop | None = None
        self._oom_kills: int | None = None
        self._look: Timer | None = None
        self._guardian: Guardian | None = Guardian(self._mark, exits, say)
        self._strays = Strays(self._mark, sole_owner=sole_owner)
        self._strays.adopt()
        self._bystanders = bystanders
        self._results = Results()
        self._starter = starter or CommandStarter()
        self._births = Births(
            loop,
            self._starter,
            start=self._start_one,
            on_failed=self._post_failed_start,
            on_done=self._post_started,
        )
        try:
            self._starter.open(self.marking)
        except OSError:  # no more processes: this one must be again what it was before
            self.close()
            raise

    def start(self, plan: LaunchPlan) -> None:
        """See :meth:`Launcher.start`."""
        self._reap()
        if self._processes:
            raise RuntimeError("workers are started while others still run: stop them first")
        self._attempt = plan.attempt
        self._oom_kills = oom_kills()
        self._results = Results()
        self._births.begin(plan.workers)

    def stop(self, attempt: int, signal: str, grace: float | None) -> None:
        """See :meth:`Launcher.stop`."""
        self._attempt = attempt
        self._births.cancel()
        number = signals.Signals[signal]
        if self._stop is None:
            self._note_who_is_alive()
            self._stop = self._new_stop()
            self._stop.begin(number, grace)

    def signal(self, signal: str, local_rank: int | None = None, *, why: str = "") -> int:
        """See :meth:`Launcher.signal`."""
        chosen = [
            process
            for process in self._processes.values()
            if local_rank in (None, process.plan.local_rank) and process.is_alive()
        ]
        for process in chosen:
            process.tell(signal, why)
        return len(chosen)

    def kill(self) -> None:
        """See :meth:`Launcher.kill`."""
        if self._stop is not None:
            self._stop.kill()

    def child_ended(self) -> None:
        """Perhaps an orphan of a worker, which nobody else would reap: look, a second later.

        So a restart waits for nothing, and a burst of ends costs one look.
        """
        if self._look is None:
            self._look = self._loop.call_later(_ORPHANS_SECONDS, self._reap_orphans)

    def _reap_orphans(self) -> None:
        self._look = None
        if self._stop is None and self._guardian is not None:
            self._strays.look_below(self._processes)
            self._strays.reap_ended({*self._processes, *self._others()}, self._processes)

    def close(self) -> list[int]:
        """See :meth:`Launcher.close`."""
        if self._guardian is None:
            return []
        stuck: list[int] = []
        self._births.cancel()
        if self._stop is not None:
            self._stop.abandon()
        self._stop = stop = self._new_stop(stuck.extend)
        stop.kill()
        self._loop.run_until(lambda: self._stop is not stop, 2 * _CLOSE_SECONDS)
        self._starter.close()
        self._strays.release()
        self._guardian.dismiss()
        self._guardian = None
        return stuck

    def return_values(self) -> dict[int, Any]:
        """See :meth:`Launcher.return_values`."""
        return self._results.values

    def exceptions(self) -> dict[int, BaseException]:
        """See :meth:`Launcher.exceptions`."""
        return self._results.exceptions

    def _start_one(self, worker: WorkerPlan) -> None:
        with ExitStack() as files:
            env = {**os.environ, **worker.env, **self.marking}
            child = self._starter.start(worker, env, Streams.of(worker, files))
        self._processes[child.pid] = Running(worker, child)
        if self._guardian is not None:
            self._guardian.add(child.pid)
        self._exits.watch(child.pid, self._ended)
        child.go()

    @property
    def marking(self) -> dict[str, str]:
        """The variable by which the guardian finds what must not survive the agent."""
        # An agent inside a worker adds its mark to the outer one, so that both find its workers.
        outer = os.environ.get(MARK)
        return {MARK: f"{outer}:{self._mark}" if outer else self._mark}

    def _post_started(self) -> None:
        self._post("workers_started", pids=list(self._processes))

    def _post_failed_start(self, worker: WorkerPlan, error: OSError) -> None:
        code = start_code(error)
        words = (error.strerror, error.filename or "".join(worker.argv[:1]))
        reason = f"cannot be started: {': '.join(filter(None, words))}"
        self._post_exit(worker.local_rank, None, code, reason=reason)

    def _ended(self, pid: int, exit_code: int) -> None:
        process = self._processes[pid]
        process.exit_code = exit_code
        stopped = process.stopped_by_agent
        rank = process.plan.local_rank
        unreadable = self._results.take(rank, process.child.outcome, exit_code)
        reason = unreadable or ("" if stopped else process.explain(exit_code, self._oom_kills))
        self._post_exit(
            rank,
            pid,
            1 if unreadable else exit_code,
            stopped_by_agent=stopped,
            reason=reason,
        )
        if self._stop is not None:
            self._stop.advance()

    def _note_who_is_alive(self) -> None:
        """Only those that are alive now are later called stopped by the agent."""
        for process in self._processes.values():
            process.stopped_by_agent = process.is_alive()

    def _new_stop(self, on_stuck: Any = None) -> Stop:
        def done(stuck: list[int]) -> None:
            self._stop = None
            caught = caught_signals(self._processes.values())
            self._reap()
            if on_stuck is not None:
                on_stuck(stuck)
            elif stuck:
                self._post("workers_stuck", pids=stuck)
            else:
                self._post("workers_stopped", caught=caught)

        self._strays.look_below(self._processes)
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
        guardian = [self._guardian.pid] if self._guardian else []
        return [*self._bystanders, *guardian, *self._starter.pids]

    def _reap(self) -> None:
        for pid, process in list(self._processes.items()):
            if process.exit_code is not None:
                process.child.close()
                del self._processes[pid]
                if self._guardian is not None:
                    self._guardian.forget(pid)

    def _post_exit(
        self,
        local_rank: int,
        pid: int | None,
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

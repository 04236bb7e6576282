"""A launcher that starts nothing: its workers live in a script."""

from __future__ import annotations

import functools
import itertools
import signal as signals
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.launchers.base import Launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.launchers.base import LaunchPlan
    from elastic_fsm.loop import Loop, Timer

__all__ = ["OnStop", "ScriptedLauncher"]


@dataclass(frozen=True, slots=True)
class OnStop:
    """What a worker does about a stop: ``takes`` seconds to end (None: it ignores the signal)
    with ``exit_code`` (None: of the signal); one that ``survives_kill`` never ends at all."""

    takes: float | None = 0.0
    exit_code: int | None = None
    survives_kill: bool = False


class ScriptedLauncher(Launcher):
    """Workers that run, in virtual time, until the script says otherwise.

    ``start_takes`` is the time from the start to its answer (None: it never comes); ``on_stop``
    says by local rank how a worker takes a stop; those in ``cannot_start`` fail at their next
    start; ``on_signal`` says by name and after how long a signal that is passed on ends a worker,
    and with which exit code: ``{"SIGUSR1": (30.0, 0)}``; others are not listened to. ``calls``
    tells what was asked: ``("stop", 0, "SIGTERM", 25.0)``.
    """

    def __init__(
        self, loop: Loop, *, start_takes: float | None = 0.0, kill_timeout: float | None = 5.0
    ) -> None:
        self.start_takes = start_takes
        self.on_stop: dict[int, OnStop] = {}
        self.on_signal: dict[str, tuple[float, int]] = {}
        self.cannot_start: dict[int, str] = {}
        self.calls: list[tuple[Any, ...]] = []
        self._loop = loop
        self._kill_timeout = kill_timeout
        self._pids = itertools.count(1001)
        self._attempt = -1
        self._alive: dict[int, int] = {}
        self._stopped: frozenset[int] = frozenset()
        self._stopping = False
        self._killing = False
        self._timers: list[Timer] = []

    @property
    def alive(self) -> dict[int, int]:
        """Pids of the workers that run, by local rank."""
        return dict(self._alive)

    # -- the script ----------------------------------------------------------------------------

    def exits(self, local_rank: int, code: int, *, reason: str = "") -> None:
        """A worker ends (-n: of signal n); nothing happens when it does not run."""
        if local_rank in self._alive:
            pid = self._alive.pop(local_rank)
            stopped = local_rank in self._stopped
            self._post_exit(
                local_rank, pid, code, stopped=stopped, reason="" if stopped else reason
            )
            self._finish_if_all_ended()

    # -- the port ------------------------------------------------------------------------------

    def start(self, plan: LaunchPlan) -> None:
        """See :meth:`Launcher.start`."""
        self.calls.append(("start", plan.attempt))
        self._attempt = plan.attempt
        self._stopped = frozenset()
        for worker in plan.workers:
            reason = self.cannot_start.pop(worker.local_rank, None)
            if reason is not None:
                self._post_exit(worker.local_rank, None, 127, reason=reason)
                return
            self._alive[worker.local_rank] = next(self._pids)
        pids = list(self._alive.values())
        if self.start_takes is not None:
            self._later(self.start_takes, lambda: self._post("workers_started", pids=pids))

    def stop(self, attempt: int, signal: str, grace: float | None) -> None:
        """See :meth:`Launcher.stop`."""
        self.calls.append(("stop", attempt, signal, grace))
        self._attempt = attempt
        if self._stopping:
            return
        self._cancel_timers()
        self._stopping, self._stopped = True, frozenset(self._alive)
        for local_rank in self._alive:
            self._obey(local_rank, signals.Signals[signal])
        if grace is not None:
            self._later(grace, self._kill_now)
        self._later(0.0, self._finish_if_all_ended)

    def signal(self, signal: str, local_rank: int | None = None, *, why: str = "") -> int:
        """See :meth:`Launcher.signal`. SIGKILL ends workers at once."""
        self.calls.append(("signal", signal, local_rank))
        reached = [rank for rank in self._alive if local_rank in (None, rank)]
        kill = {"SIGKILL": (0.0, -signals.SIGKILL)}
        takes, code = {**self.on_signal, **kill}.get(signal, (None, 0))
        for rank in reached:
            if takes is not None:
                end = functools.partial(self._exits_of_signal, rank, self._alive[rank], code, why)
                self._loop.call_later(takes, end)
        return len(reached)

    def _exits_of_signal(self, local_rank: int, pid: int, code: int, why: str) -> None:
        if self._alive.get(local_rank) == pid:  # a later attempt has workers of its own
            self.exits(local_rank, code, reason=why)

    def kill(self) -> None:
        """See :meth:`Launcher.kill`."""
        self.calls.append(("kill",))
        if self._stopping:
            self._kill_now()

    def close(self) -> list[int]:
        """See :meth:`Launcher.close`."""
        self.calls.append(("close",))
        self._cancel_timers()
        stuck = [pid for rank, pid in self._alive.items() if self._of(rank).survives_kill]
        self._alive.clear()
        return stuck

    def _of(self, local_rank: int) -> OnStop:
        return self.on_stop.get(local_rank, OnStop())

    def _obey(self, local_rank: int, number: int) -> None:
        conduct = self._of(local_rank)
        if conduct.takes is not None and not conduct.survives_kill:
            code = -number if conduct.exit_code is None else conduct.exit_code
            self._later(conduct.takes, lambda: self.exits(local_rank, code))

    def _kill_now(self) -> None:
        if self._killing:
            return
        self._cancel_timers()
        self._killing = True
        for local_rank in list(self._alive):
            if not self._of(local_rank).survives_kill:
                self.exits(local_rank, -signals.SIGKILL)
        if self._stopping and self._kill_timeout is not None:
            self._later(self._kill_timeout, self._give_up)

    def _finish_if_all_ended(self) -> None:
        if self._stopping and not self._alive:
            self._end_stop()
            self._post("workers_stopped")

    def _give_up(self) -> None:
        self._end_stop()
        self._post("workers_stuck", pids=list(self._alive.values()))

    def _end_stop(self) -> None:
        self._cancel_timers()
        self._stopping = self._killing = False

    def _post_exit(
        self,
        local_rank: int,
        pid: int | None,
        code: int,
        *,
        stopped: bool = False,
        reason: str = "",
    ) -> None:
        data = {"local_rank": local_rank, "pid": pid, "exit_code": code}
        self._post("worker_exited", **data, stopped_by_agent=stopped, reason=reason)

    def _post(self, name: str, **data: Any) -> None:
        self._loop.post(Event(name, data, attempt=self._attempt))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, call))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

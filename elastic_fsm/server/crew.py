"""The workers of one start, waited for without an agent around them."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.launchers.choice import make_starter
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.loop import Loop
from elastic_fsm.sources.exits import Exits

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping

    from elastic_fsm.launchers.base import LaunchPlan

__all__ = ["Crew"]


class Crew:
    """Starts the workers of a plan and waits for them, in the calling thread.

    ``ended`` holds the data of the ``worker_exited`` events by local rank.
    """

    def __init__(self, plan: LaunchPlan, *, launcher: str, start_method: str) -> None:
        self._plan = plan
        self._loop = Loop(SystemClock())
        self._exits = Exits(self._loop)
        starter = make_starter(
            launcher, loop=self._loop, exits=self._exits, start_method=start_method
        )
        self._launcher = SubprocessLauncher(self._loop, self._exits, starter=starter)
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_write.setblocking(False)
        self._loop.watch(self._wake_read, self._woken)
        self._interrupted: BaseException | None = None
        self._is_stopping = False
        self.is_closed = False
        self.pids: dict[int, int] = {}
        self.ended: dict[int, Mapping[str, Any]] = {}

    @property
    def is_decided(self) -> bool:
        """Whether one has failed, or all are done."""
        return len(self.ended) == len(self._plan.workers) or bool(self.failed)

    @property
    def ended_badly(self) -> dict[int, Mapping[str, Any]]:
        """Those that did not end with 0."""
        return {rank: end for rank, end in self.ended.items() if end["exit_code"] != 0}

    @property
    def failed(self) -> dict[int, Mapping[str, Any]]:
        """Those that ended badly, and not because they were stopped."""
        bad = self.ended_badly.items()
        return {rank: end for rank, end in bad if not end["stopped_by_agent"]}

    @property
    def return_values(self) -> dict[int, Any]:
        """See :meth:`Launcher.return_values`."""
        return self._launcher.return_values()

    @property
    def exceptions(self) -> dict[int, BaseException]:
        """See :meth:`Launcher.exceptions`."""
        return self._launcher.exceptions()

    def start(self) -> None:
        """Start all workers; returns when they run. Raises ``OSError`` when one cannot be."""
        self._launcher.start(self._plan)
        while not self.pids:
            self._take(self._loop.next_event())
            for end in self.ended.values():
                if end["pid"] is None:
                    kind = FileNotFoundError if end["exit_code"] == 127 else OSError
                    raise kind(f"local rank {end['local_rank']} {end['reason']}")

    def wait(self, seconds: float | None) -> bool:
        """Wait until it is decided, or so long (None: for ever, 0: only look); whether it is."""
        time_is_up = Event("time_is_up")
        if seconds is not None:
            timer = self._loop.call_later(seconds, lambda: self._loop.post(time_is_up))
        while not self.is_decided:
            event = self._loop.next_event()
            if event is time_is_up:
                break
            self._take(event)
        if seconds is not None:
            timer.cancel()
        return self.is_decided

    def stop(self, number: signal.Signals, grace: float | None) -> None:
        """Stop who still runs; returns when all are down."""
        self._is_stopping = True
        self._launcher.stop(self._plan.attempt, number.name, grace)
        while self._is_stopping:
            self._take(self._loop.next_event())

    def close(self) -> None:
        """Kill and reap what is left; calling it again does nothing."""
        if not self.is_closed:
            self.is_closed = True
            self._launcher.close()
            self._exits.close()
            self._loop.close()
            self._wake_read.close()
            self._wake_write.close()

    def interrupt(self, error: BaseException) -> None:
        """From a signal handler: leave the wait by this exception, or cut a stop short."""
        self._interrupted = error
        with suppress(OSError):
            os.write(self._wake_write.fileno(), b"\0")

    def _woken(self) -> None:
        self._wake_read.recv(64)
        self._loop.post_first(Event("interrupted"))

    def _take(self, event: Event) -> None:
        if event.name == "workers_started":
            self.pids = dict(enumerate(event.data["pids"]))
        elif event.name == "worker_exited":
            self.ended[event.data["local_rank"]] = event.data
        elif event.name in ("workers_stopped", "workers_stuck"):
            self._is_stopping = False
        elif event.name == "interrupted" and self._is_stopping:
            self._launcher.kill()
        elif event.name == "interrupted" and self._interrupted is not None:
            raise self._interrupted

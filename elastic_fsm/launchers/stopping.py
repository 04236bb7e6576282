"""One stop under way: one signal, one deadline, one answer.

First every worker's group gets the signal. When all workers have ended, what they left behind
gets SIGTERM, whatever the signal was, and is waited for: what a shell starts in the background
is deaf to SIGINT and SIGQUIT. A process that was just being forked may have lost the signal to a
handler of its parent's, which was gone with its exec; so who cannot have heard it gets it again.
At the deadline everything that is left gets SIGKILL. Only then, with all gone, are the workers
reaped: as long as a group's leader is an unreaped zombie, its group can be signalled without
fear that the number belongs to somebody else by now.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from elastic_fsm.launchers.procfs import takes_default_action
from elastic_fsm.launchers.strays import reap, send

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from elastic_fsm.launchers.base import ExitWatcher
    from elastic_fsm.launchers.strays import Strays
    from elastic_fsm.loop import Loop, Timer

__all__ = ["Stop", "signal_group"]

_FIRST_REMINDER = 0.1
"""Seconds; each next one comes after twice the time."""

_NEXT_LOOK = 0.05
"""Seconds until the next look at a stray whose end nobody can tell us."""


class Stop:
    """Takes down the groups led by ``leaders``, and their strays.

    ``others`` are children that are left alone. ``is_alive`` tells whether a leader has not ended
    yet. ``on_done`` is called exactly once, with the pids that even SIGKILL did not end. The owner
    calls :meth:`advance` for each leader that ends.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        exits: ExitWatcher,
        strays: Strays,
        leaders: Collection[int],
        others: Callable[[], Collection[int]],
        is_alive: Callable[[int], bool],
        kill_timeout: float | None,
        on_done: Callable[[list[int]], None],
    ) -> None:
        self._loop = loop
        self._exits = exits
        self._strays = strays
        self._leaders = leaders
        self._others = others
        self._is_alive = is_alive
        self._kill_timeout = kill_timeout
        self._on_done = on_done
        self._killing = False
        self._watched: set[int] = set()
        self._timer: Timer | None = None
        self._done = False

    def begin(self, number: signal.Signals, grace: float | None) -> None:
        """Signal all groups and arm the deadline (None: no deadline)."""
        for leader in self._leaders:
            signal_group(leader, number)
        for leader in self._leaders:  # afterwards: each who wakes up may take our processor
            signal_group(leader, signal.SIGCONT)  # a frozen worker must be able to hear it
        if grace is not None:
            self._timer = self._loop.call_later(grace, self.kill)
        self.advance()

    def kill(self) -> None:
        """The grace is over."""
        if self._killing or self._done:
            return
        self._killing = True
        self._cancel_timer()
        for leader in self._leaders:
            signal_group(leader, signal.SIGKILL)
        for pid in self._watched:
            send(pid, signal.SIGKILL)
        if self._kill_timeout is not None:
            self._timer = self._loop.call_later(self._kill_timeout, self._give_up)
        self.advance()

    def advance(self) -> None:
        """Somebody ended: look for what is left, and finish when that is nothing."""
        if self._done or any(self._is_alive(leader) for leader in self._leaders):
            return
        for pid in self._find_strays():
            self._take_down(pid)
        if not self._watched:
            self._finish()

    def abandon(self) -> None:
        """Forget the stop without an answer."""
        self._done = True
        self._cancel_timer()
        for pid in self._watched:
            self._exits.forget(pid)

    def _find_strays(self) -> list[int]:
        known = {*self._leaders, *self._others(), *self._watched}
        return self._strays.find(known, self._leaders)

    def _take_down(self, pid: int) -> None:
        self._watched.add(pid)
        self._exits.watch(pid, self._stray_ended)
        send(pid, signal.SIGKILL if self._killing else signal.SIGTERM)
        self._remind_later(pid, _FIRST_REMINDER)

    def _remind_later(self, pid: int, seconds: float) -> None:
        self._loop.call_later(seconds, lambda: self._remind(pid, seconds))

    def _remind(self, pid: int, waited: float) -> None:
        """Only who has no handler: to others a second signal may mean that they must hurry."""
        if pid not in self._watched or self._killing or self._done:
            return
        if takes_default_action(pid, signal.SIGTERM):
            send(pid, signal.SIGTERM)
        self._remind_later(pid, 2 * waited)

    def _stray_ended(self, pid: int, exit_code: int) -> None:
        if pid not in self._watched or self._done:
            return
        if self._strays.has_stayed(pid):
            # Nobody tells us of it: it is no child that could be waited for, and there is no
            # pidfd. (kqueue could on macOS and BSD, where this has not been tried.)
            self._loop.call_later(_NEXT_LOOK, lambda: self._stray_ended(pid, exit_code))
            return
        self._watched.discard(pid)
        reap(pid)
        self.advance()

    def _finish(self) -> None:
        for leader in self._leaders:
            signal_group(leader, signal.SIGKILL)
        self.abandon()
        self._on_done([])

    def _give_up(self) -> None:
        stuck = [leader for leader in self._leaders if self._is_alive(leader)]
        stuck += sorted(self._watched)
        self.abandon()
        self._on_done(stuck)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal a process group; one without members any more is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)

"""Ends of processes, told by the kernel.

A pidfd becomes readable when its process ends; the status is then read *without* reaping, so
that the process group stays addressable until its rest has been killed. Ready pidfds come out
of epoll in the order in which the processes ended, and that is the order of the callbacks. A
descriptor is given back one look after its end was told.
Where there is no pidfd a thread waits for each process instead.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from elastic_fsm.failures import CODE_IS_LOST
from elastic_fsm.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.loop import Loop

    OnExit = Callable[[int, int], None]

__all__ = ["Exits", "exit_status"]


def exit_status(pid: int) -> int | None:
    """The exit code of a child that has ended (-n: signal n), without reaping it; else None.

    Raises ``ChildProcessError`` for a process that is not a child or has been reaped.
    """
    return _code(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))


def _code(result: os.waitid_result | None) -> int | None:
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _status_of(pid: int) -> int | None:
    try:
        return exit_status(pid)
    except ChildProcessError:  # somebody else in this program has reaped it
        return CODE_IS_LOST


class Exits(Source):
    """Calls back, in the loop's thread, when a watched child ends."""

    def __init__(self, loop: Loop, *, pidfd: bool = hasattr(os, "pidfd_open")) -> None:
        self._loop = loop
        self._pidfd = pidfd
        self._watched: dict[int, int | None] = {}
        self._told: set[int] = set()

    def start(self) -> None:
        """Nothing to do before the first :meth:`watch`."""

    def watch(self, pid: int, on_exit: OnExit) -> None:
        """Call ``on_exit(pid, exit_code)`` once, when the child has ended; it is not reaped."""
        self.forget(pid)  # the number may be that of one who has ended
        try:
            descriptor = os.pidfd_open(pid) if self._pidfd else None
        except OSError:  # an old kernel, or out of descriptors
            descriptor = None
        self._watched[pid] = descriptor
        if descriptor is None:
            self._watch_by_thread(pid, on_exit)
        else:
            self._loop.watch(descriptor, lambda: self._readable(pid, on_exit))

    def forget(self, pid: int) -> None:
        """Stop watching; nothing happens when it is not watched."""
        self._told.discard(pid)
        descriptor = self._watched.pop(pid, None)
        if descriptor is not None:
            self._loop.unwatch(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Forget everybody."""
        for pid in list(self._watched):
            self.forget(pid)

    def _readable(self, pid: int, on_exit: OnExit) -> None:
        """Give the descriptor back at the second look only, which comes when its end has been
        acted on: that is urgent, for the other workers wait for a signal."""
        if pid in self._told:
            self.forget(pid)
        elif (code := _status_of(pid)) is not None:
            self._told.add(pid)
            on_exit(pid, code)

    def _watch_by_thread(self, pid: int, on_exit: OnExit) -> None:
        """A thread per process; its answer is taken up by the loop's thread."""

        def wait() -> None:
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self._loop.call_soon(arrived)

        def arrived() -> None:
            code = _status_of(pid)
            if pid in self._watched and code is not None:
                self.forget(pid)
                on_exit(pid, code)

        threading.Thread(target=wait, name=f"exit of {pid}", daemon=True).start()

"""What workers leave behind: processes that left their group, their session and their parent.

On Linux the agent makes itself the *subreaper*: an orphan below it becomes its child, however
often it forked and whatever session it chose, and so is found by looking at one list. Elsewhere
an orphan becomes the child of the system's first process, and is looked for among all processes.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from elastic_fsm.launchers.procfs import (
    all_stats,
    below,
    children_of,
    descendants_of,
    has_mark,
    led_or_marked,
    read_stat,
)

if TYPE_CHECKING:
    import signal
    from collections.abc import Collection, Iterable

    from elastic_fsm.launchers.procfs import Stat

__all__ = ["Strays", "reap", "send"]

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


class _Subreaper:
    """This process as subreaper, for as long as any run in it wants that."""

    _lock = threading.Lock()
    _runs = 0
    _was_one = False

    @classmethod
    def enter(cls) -> bool:
        """One more run wants it; False where the kernel cannot do it."""
        libc = ctypes.CDLL(None, use_errno=True)
        with cls._lock:
            if cls._runs == 0:
                before = ctypes.c_int(0)
                libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
                cls._was_one = bool(before.value)
                if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
                    return False
            cls._runs += 1
        return True

    @classmethod
    def leave(cls) -> None:
        """One run less; the last one gives it up, if it was not so before."""
        with cls._lock:
            cls._runs -= 1
            if cls._runs == 0 and not cls._was_one:
                ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Strays:
    """Finds what workers left: among this process's children, or among all processes.

    ``sole_owner`` says that this process starts no other children than ours (the command line);
    then every unknown child is a worker's orphan. In a program of the user's own only what sits
    in a worker's session, carries the mark, or has been seen below a worker is: of a process that
    has ended the mark cannot be read any more. So it is among all processes.
    """

    def __init__(self, mark: str, *, sole_owner: bool) -> None:
        self._mark = mark
        self._sole_owner = sole_owner
        self._adopts = False
        self._seen: dict[int, int] = {}  # when each process that is ours was started, by pid

    def adopt(self) -> None:
        """Become the parent of all orphans below this process; undone by :meth:`release`."""
        if sys.platform == "linux" and not self._adopts:
            self._adopts = _Subreaper.enter()

    def release(self) -> None:
        """Be what this process was before, unless another run needs it still."""
        if self._adopts:
            _Subreaper.leave()
        self._adopts = False

    def look_below(self, workers: Iterable[int]) -> None:
        """Remember who descends from the workers, to know them again when they have ended."""
        if not (self._adopts and self._sole_owner):
            still = [pid for pid in self._seen if self._is_seen(read_stat(pid))]
            ours = descendants_of([*workers, *still]).union(still)
            stats = [read_stat(pid) for pid in ours]
            self._seen = {stat.pid: stat.started for stat in stats if stat is not None}

    def find(self, known: Collection[int], sessions: Collection[int]) -> list[int]:
        """Living strays that are not ``known``; children among them that have ended are reaped.

        ``sessions`` are the pids of the workers, each the leader of a session.
        """
        if self._adopts and self._sole_owner:  # whatever is unknown is ours, marked or not
            return self._find_among_children(known, sessions)
        look = self._find_among_children if self._adopts else self._find_elsewhere
        # A process in the middle of an exec shows no mark: only nothing twice is nothing.
        return look(known, sessions) or look(known, sessions)

    def reap_ended(self, known: Collection[int], sessions: Collection[int]) -> None:
        """Reap strays that ended by themselves; elsewhere the first process does that."""
        if self._adopts:
            self.find(known, sessions)

    def has_stayed(self, pid: int) -> bool:
        """Whether a stray that is told to have ended has not: of one that is no child of ours,
        only a pidfd tells the truth."""
        if self._adopts:
            return False
        stat = read_stat(pid)
        return stat is not None and self._is_seen(stat) and not stat.ended

    def _find_among_children(self, known: Collection[int], sessions: Collection[int]) -> list[int]:
        unknown = [pid for pid in children_of(os.getpid()) if pid not in known]
        return [pid for pid in unknown if self._is_living_stray(pid, sessions)]

    def _find_elsewhere(self, known: Collection[int], sessions: Collection[int]) -> list[int]:
        """The topmost of what is ours: what a stray has below it is its own care, as it is below
        a subreaper, and is topmost itself when that stray has ended."""
        stats = all_stats()
        seen = {pid for pid in self._seen if self._is_seen(stats.get(pid))}
        ours = below(stats, seen | led_or_marked(stats, sessions, self._mark))
        self._seen = {pid: stats[pid].started for pid in ours if pid in stats}
        theirs = ours.union(known)
        topmost = [pid for pid in self._seen if stats[pid].parent not in theirs]
        spared = {*known, os.getpid()}
        return [pid for pid in topmost if pid not in spared and not stats[pid].ended]

    def _is_living_stray(self, pid: int, sessions: Collection[int]) -> bool:
        stat = read_stat(pid)
        if stat is None:
            return False
        is_ours = self._is_ours(stat, sessions)
        if is_ours and stat.ended:
            reap(pid)
        return is_ours and not stat.ended

    def _is_ours(self, stat: Stat, sessions: Collection[int]) -> bool:
        if self._sole_owner or stat.session in sessions or self._is_seen(stat):
            return True
        if not (self._is_led_by_one_seen(stat) or has_mark(stat.pid, self._mark)):
            return False
        self._seen[stat.pid] = stat.started
        return True

    def _is_led_by_one_seen(self, stat: Stat) -> bool:
        """A stray's child may be in the middle of an exec, when the stray has just ended. Its
        session keeps the number of its leader from being given to somebody else."""
        if stat.session not in self._seen:
            return False
        leader = read_stat(stat.session)
        return leader is None or self._is_seen(leader)

    def _is_seen(self, stat: Stat | None) -> bool:
        return stat is not None and self._seen.get(stat.pid) == stat.started


def reap(pid: int) -> None:
    """Take the status of a child that has ended; one that is not ours any more is left alone."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def send(pid: int, number: signal.Signals) -> None:
    """Signal one process, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)

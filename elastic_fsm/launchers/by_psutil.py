"""What the system says about processes where there is no ``/proc``, as on macOS: by psutil.

Everybody asks :mod:`elastic_fsm.launchers.procfs`, which asks this, and loads it, only there. What
cannot be told, of a process that has vanished or is another user's, counts as not there; so does
everything where psutil sees nothing either: on a Linux whose ``/proc`` is hidden.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from elastic_fsm.launchers.procfs import Stat

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FOLDER", "has_mark", "pids", "read_stat"]

FOLDER = str(Path(psutil.__file__).parents[1])
"""Where an interpreter without site-packages finds psutil."""

# A blind psutil is not always aware of it: its list of pids then fails with an IndexError.
_UNTOLD = (psutil.Error, OSError, LookupError, AttributeError, NotImplementedError)
_LETTERS = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_DEAD: "X", psutil.STATUS_DISK_SLEEP: "D"}
_TICKS = 100


def pids() -> list[int]:
    """Every process that can be seen."""
    with suppress(*_UNTOLD):
        return psutil.pids()
    return []


def read_stat(pid: int) -> Stat | None:
    """What is known of a process; None when there is none.

    ``state`` is one of the letters of ``/proc`` that we ask for, or empty. ``started`` is in
    hundredths of a second; nobody compares it with anything but itself.
    """
    with suppress(*_UNTOLD):
        process = psutil.Process(pid)
        with process.oneshot():
            return Stat(
                pid,
                state=_LETTERS.get(process.status(), ""),
                parent=process.ppid(),
                group=_number(os.getpgid, pid),
                session=_number(os.getsid, pid),
                started=int(process.create_time() * _TICKS),
            )
    return None


def has_mark(pid: int, mark: str) -> bool:
    """Whether the environment of a process holds ``mark``; macOS hides that of its own programs."""
    with suppress(*_UNTOLD):
        variables = psutil.Process(pid).environ().items()
        return any(mark in f"{name}={value}" for name, value in variables)
    return False


def _number(ask: Callable[[int], int], pid: int) -> int:
    """A group or session; 0, which is nobody's, where it is not told, as for some zombies."""
    with suppress(OSError):
        return ask(pid)
    return 0

"""What ``/proc`` says about processes: who descends from whom, and who carries our mark.

Standard library only: the guardian runs it in an interpreter without site-packages.
A process that vanishes while it is looked at is simply not there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Stat",
    "all_stats",
    "children_of",
    "descendants_of",
    "has_mark",
    "is_mounted",
    "read_stat",
    "takes_default_action",
]

PROC = Path("/proc")
_CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class Stat:
    """One line of ``/proc/<pid>/stat``. ``started`` is in clock ticks since the boot."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int

    @property
    def ended(self) -> bool:
        """Whether it is a zombie: ended, and not yet reaped by its parent."""
        return self.state in ("Z", "X")


def is_mounted() -> bool:
    """Whether there is anything to be read here; else nobody is found, and that is no error."""
    return (PROC / "self/stat").exists()


def read_stat(pid: int) -> Stat | None:
    """What is known of a process; None when there is none."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def all_stats() -> dict[int, Stat]:
    """Every process that can be seen, by pid."""
    found = (read_stat(int(name)) for name in _names(PROC) if name.isdigit())
    return {stat.pid: stat for stat in found if stat is not None}


def has_mark(pid: int, mark: str) -> bool:
    """Whether the environment a process was started with holds ``mark``."""
    try:
        return mark.encode() in (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False


def takes_default_action(pid: int, number: int) -> bool:
    """Whether a signal has its usual effect: it is not caught, ignored or blocked."""
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    masks = [int(line[7:], 16) for line in lines if line[:7] in ("SigBlk:", "SigIgn:", "SigCgt:")]
    return not any(mask >> (number - 1) & 1 for mask in masks)


def children_of(pid: int) -> list[int]:
    """Pids of direct children, zombies too.

    From the kernel's own lists, one for each thread; where it keeps none by a look at all.
    """
    if not (PROC / f"self/task/{os.getpid()}" / _CHILDREN).exists():
        return [stat.pid for stat in all_stats().values() if stat.parent == pid]
    tasks = PROC / str(pid) / "task"
    return [child for task in _names(tasks) for child in _numbers(tasks / task / _CHILDREN)]


def descendants_of(pids: Iterable[int]) -> set[int]:
    """Children, and theirs, and so on, as far as their parents live."""
    found: set[int] = set()
    left = list(pids)
    while left:
        new = set(children_of(left.pop())) - found
        found |= new
        left += new
    return found


def _names(folder: Path) -> list[str]:
    with suppress(OSError):  # not mounted, gone, or out of descriptors
        return os.listdir(folder)
    return []


def _numbers(file: Path) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in file.read_bytes().split()]
    return []

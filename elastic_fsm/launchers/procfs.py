"""What ``/proc`` says about processes: who descends from whom, and who carries our mark.

Standard library only: the guardian runs it in an interpreter without site-packages.
A process that vanishes while it is looked at is simply not there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Stat",
    "all_stats",
    "children_of_this_process",
    "has_children_lists",
    "has_mark",
    "read_stat",
]


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


def read_stat(pid: int) -> Stat | None:
    """What is known of a process; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
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
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {stat.pid: stat for stat in found if stat is not None}


def has_mark(pid: int, mark: str) -> bool:
    """Whether the environment a process was started with holds ``mark``."""
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def has_children_lists() -> bool:
    """Whether the kernel was built to list the children of each thread."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def children_of_this_process() -> Iterator[int]:
    """Pids of the direct children, zombies too; the kernel keeps a list for each thread."""
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:  # out of descriptors
        return
    for task in tasks:
        try:
            yield from map(int, Path(f"/proc/self/task/{task}/children").read_bytes().split())
        except OSError:
            continue

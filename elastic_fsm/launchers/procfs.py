"""What the system says about processes, by ``/proc`` or psutil: who descends from whom, and who
carries our mark.

The guardian runs it in an interpreter without site-packages, which is to start at once: nothing
is imported but ``os``. A process that vanishes while it is looked at is simply not there. Where
there is no ``/proc``, :mod:`elastic_fsm.launchers.by_psutil` is asked, and loaded, instead.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Protocol

__all__ = [
    "Stat",
    "all_stats",
    "below",
    "children_of",
    "descendants_of",
    "has_mark",
    "is_mounted",
    "led_or_marked",
    "read_stat",
    "sees_processes",
    "signal_masks",
    "takes_default_action",
]

PROC = "/proc"
_CHILDREN = "children"


class Stat:
    """One line of ``/proc/<pid>/stat``. ``started`` is in clock ticks since the boot."""

    __slots__ = ("group", "parent", "pid", "session", "started", "state")

    def __init__(
        self, pid: int, *, state: str, parent: int, group: int, session: int, started: int
    ) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.group = group
        self.session = session
        self.started = started

    @property
    def ended(self) -> bool:
        """Whether it is a zombie: ended, and not yet reaped by its parent."""
        return self.state in ("Z", "X")


if TYPE_CHECKING:

    class _Elsewhere(Protocol):
        """What the module can tell that is asked where there is no ``/proc``."""

        def pids(self) -> list[int]: ...
        def read_stat(self, pid: int) -> Stat | None: ...
        def has_mark(self, pid: int, mark: str) -> bool: ...


def is_mounted() -> bool:
    """Whether there is anything to be read here."""
    return os.path.exists(f"{PROC}/self/stat")


def sees_processes() -> bool:
    """Whether anything can be told, by either; else nobody is found: that is no error."""
    return read_stat(os.getpid()) is not None


def read_stat(pid: int) -> Stat | None:
    """What is known of a process; None when there is none."""
    text = _read(f"{PROC}/{pid}/stat")
    if not text and not is_mounted():
        return _elsewhere().read_stat(pid)
    if not text:
        return None
    # The name stands in parentheses and may hold anything, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def all_stats() -> dict[int, Stat]:
    """Every process that can be seen, by pid."""
    found = (read_stat(pid) for pid in _pids())
    return {stat.pid: stat for stat in found if stat is not None}


def has_mark(pid: int, mark: str) -> bool:
    """Whether the environment a process was started with holds ``mark``."""
    text = _read(f"{PROC}/{pid}/environ")
    if not text and not is_mounted():
        return _elsewhere().has_mark(pid, mark)
    return mark.encode() in text


def takes_default_action(pid: int, number: int) -> bool:
    """Whether a signal has its usual effect: it is not caught, ignored or blocked.

    Only ``/proc`` tells; elsewhere nobody is taken for such a one.
    """
    masks = signal_masks(pid)
    special = ("SigBlk", "SigIgn", "SigCgt")
    return bool(masks) and not any(masks[name] >> (number - 1) & 1 for name in special)


def signal_masks(pid: int) -> dict[str, int]:
    """``SigCgt``, ``SigIgn`` and so on: a bit for each signal, from the lowest. A process that has
    ended keeps them until it is reaped; afterwards, and where there is no ``/proc``, there are
    none.
    """
    lines = _read(f"{PROC}/{pid}/status").decode(errors="replace").splitlines()
    pairs = (line.split(":") for line in lines if line.startswith("Sig") and line[6:7] == ":")
    return {name: int(mask, 16) for name, mask in pairs}


def children_of(pid: int) -> list[int]:
    """Pids of direct children, zombies too.

    From the kernel's own lists, one for each thread; where it keeps none by a look at all.
    """
    if not _has_lists():
        return [stat.pid for stat in all_stats().values() if stat.parent == pid]
    tasks = f"{PROC}/{pid}/task"
    return [
        int(child)
        for task in _names(tasks)
        for child in _read(f"{tasks}/{task}/{_CHILDREN}").split()
    ]


def descendants_of(pids: Iterable[int]) -> set[int]:
    """Children, and theirs, and so on, as far as their parents live."""
    left = list(pids)
    if not _has_lists():
        return below(all_stats(), left).difference(left)
    found: set[int] = set()
    while left:
        new = set(children_of(left.pop())) - found
        found |= new
        left += new
    return found


def below(stats: Mapping[int, Stat], roots: Iterable[int]) -> set[int]:
    """The roots, and all of ``stats`` that descends from them, as far as their parents live."""
    found = set(roots)
    while more := {s.pid for s in stats.values() if s.parent in found and s.pid not in found}:
        found |= more
    return found


def led_or_marked(stats: Mapping[int, Stat], leaders: Collection[int], mark: str) -> set[int]:
    """Pids of what sits in a leader's session or group, or carries the mark."""
    return {
        stat.pid
        for stat in stats.values()
        if stat.session in leaders or stat.group in leaders or has_mark(stat.pid, mark)
    }


def _has_lists() -> bool:
    return os.path.exists(f"{PROC}/self/task/{os.getpid()}/{_CHILDREN}")


def _pids() -> list[int]:
    if is_mounted():
        return [int(name) for name in _names(PROC) if name.isdigit()]
    return _elsewhere().pids()


def _elsewhere() -> _Elsewhere:
    from elastic_fsm.launchers import by_psutil

    return by_psutil


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # not mounted, gone, or out of descriptors
        return []


def _read(path: str) -> bytes:
    """What a file holds: nothing where it is gone, another user's, or we are out of descriptors."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""

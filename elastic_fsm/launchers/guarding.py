"""The guardian's own process: it waits for the agent's end, then leaves nothing of its workers.

It starts when the workers do and would compete with them for the processor, so it imports only
what is there at once: ``signal``, ``contextlib``, ``typing`` and what they bring cost four times
as much as all the rest.
"""

# ruff: noqa: SIM105

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import select
import time

from elastic_fsm.launchers.procfs import all_stats, below, led_or_marked

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from elastic_fsm.launchers.procfs import Stat

__all__ = ["guard"]

_SIGNALS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
# What is still there after so long cannot be killed: it hangs in the kernel, or is another user's.
_ROUNDS = 1000
_PAUSE = 0.01
_EMPTY_LOOKS = 2


def guard(mark: str, agent: int, pipe: int = 0) -> None:
    """Return when the agent says ``done``; when it ends without, kill what descends from its
    workers. ``agent`` is its pid, ``mark`` what their environments hold, ``pipe`` is read."""
    for number in _SIGNALS:
        _signal.signal(number, _signal.SIG_IGN)
    workers: dict[int, int] = {}
    for line in _lines(agent, pipe):
        if line == "done":
            return
        worker, started = line.split()
        workers[int(worker)] = int(started)
    _kill_all(workers, mark)


def _kill_all(workers: Mapping[int, int], mark: str) -> None:
    empty = 0
    for _ in range(_ROUNDS):
        victims = _victims(all_stats(), workers, mark)
        empty = 0 if victims else empty + 1
        if empty == _EMPTY_LOOKS:
            return
        _kill(victims)
        time.sleep(_PAUSE)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, _signal.SIGKILL)
        except OSError:  # it has ended by itself, or is another user's
            pass


def _lines(agent: int, pipe: int) -> Iterator[str]:
    """The agent's lines, until it is gone; a process that it forked may still hold the pipe."""
    poller = select.poll()
    poller.register(pipe, select.POLLIN)
    try:
        poller.register(os.pidfd_open(agent), select.POLLIN)
    except (OSError, AttributeError):  # gone, or a system without: its end closes the pipe
        pass
    buffer = b""
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if pipe not in ready or not (data := os.read(pipe, 4096)):
            return
        *lines, buffer = (buffer + data).split(b"\n")
        yield from (line.decode() for line in lines)


def _victims(stats: Mapping[int, Stat], workers: Mapping[int, int], mark: str) -> set[int]:
    """Living processes that belong to a worker."""
    ours = {pid for pid, started in workers.items() if _is_same(stats.get(pid), started)}
    found = below(stats, led_or_marked(stats, ours, mark))
    return {pid for pid in found if not stats[pid].ended and pid != os.getpid()}


def _is_same(stat: Stat | None, started: int) -> bool:
    """A worker's pid still means that worker, or nobody: a pid in use as a session is kept."""
    return stat is None or stat.started == started

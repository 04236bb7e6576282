"""A worker's standard streams: its log files, the null device, or the agent's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from elastic_fsm.launchers.base import WorkerPlan

__all__ = ["Streams", "open_log"]


class Streams(NamedTuple):
    """Descriptors of a worker's standard streams; None is the agent's own stream."""

    stdin: int | None
    stdout: int | None
    stderr: int | None

    @classmethod
    def of(cls, worker: WorkerPlan, files: ExitStack) -> Streams:
        """What a plan says. ``files`` closes the agent's copies; the worker keeps its own.

        Raises ``OSError``.
        """
        return cls(
            None if worker.stdin else _held(files, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)),
            _log(worker.stdout, files),
            _log(worker.stderr, files),
        )

    def descriptors(self, files: ExitStack) -> list[int]:
        """Of all three; a stream of the agent's own that is closed is the null device."""
        found = []
        for own, stream in enumerate(self):
            descriptor = own if stream is None else stream
            try:
                os.fstat(descriptor)
            except OSError:
                descriptor = _held(files, os.open(os.devnull, os.O_RDWR))
            found.append(descriptor)
        return found


def open_log(path: Path) -> int:
    """Open ``path`` for appending, create it if need be; raises OSError.

    A worker writes without the agent in between, and its children inherit the descriptor and may
    open the same file again: with ``O_APPEND`` no writer can write over another's lines.
    """
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _log(path: Path | None, files: ExitStack) -> int | None:
    return None if path is None else _held(files, open_log(path))


def _held(files: ExitStack, descriptor: int) -> int:
    files.callback(os.close, descriptor)
    return descriptor

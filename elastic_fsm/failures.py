"""Why a worker failed: its error file, its signal, and the exception for callers.

The error file is torch's: one JSON object, ``{"message": {"message": "<Type>: <text>",
"extraInfo": {"py_callstack": "...", "timestamp": "<epoch seconds>"}}}``; a plain string as the
outer message, with a timestamp beside it, is read too.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "CODE_IS_LOST",
    "ChildFailedError",
    "ProcessFailure",
    "SignalException",
    "describe_exit",
    "is_told_to_stop",
    "place_of",
    "shell_code",
    "signal_name",
    "start_code",
]

CODE_IS_LOST = 255
"""The exit code of a worker that something else has reaped, so that nobody knows the real one."""


def start_code(error: OSError) -> int:
    """The exit code of a shell for what cannot be started: 127 where it is not there, else 126."""
    return 127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126


def signal_name(exit_code: int) -> str:
    """``SIGKILL`` for -9; empty for a worker that was not ended by a signal."""
    if exit_code >= 0:
        return ""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:  # real-time signals have no name of their own
        return f"signal {-exit_code}"


def shell_code(exit_code: int) -> int:
    """The exit code as a shell shows it: 128 + n for a death by signal n."""
    return 128 - exit_code if exit_code < 0 else exit_code


def place_of(error: BaseException | None) -> str:
    """``rules.py:9``: where it was raised, in the first code outside of this package if there is
    any. Empty when nothing was raised."""
    package = Path(__file__).parent
    place, at = "", error.__traceback__ if error else None
    while at is not None:
        file = Path(at.tb_frame.f_code.co_filename)
        place, at = f"{file.name}:{at.tb_lineno}", at.tb_next
        if package not in file.parents:
            break
    return place


def describe_exit(exit_code: int) -> str:
    """``exited with 3`` or ``was ended by SIGKILL (-9)``."""
    if exit_code < 0:
        return f"was ended by {signal_name(exit_code)} ({exit_code})"
    return f"exited with {exit_code}"


@dataclass
class ProcessFailure:
    """One failed worker. ``timestamp`` is epoch seconds: when it wrote its error file, else when
    it ended. The file comes first: a worker that raised takes a while to end, and a peer that
    notices may crash meanwhile. Its own time stamp is not used, since torch cuts it to seconds.

    ``pid`` is None for one that could not even be started.

    Beyond torch's members, ``reason`` says why the agent could not start or had to end it,
    ``stderr_tail`` holds its last lines of standard error, and ``exception`` what a function
    raised, to be raised again: None for a command, or for one that could not be sent.
    """

    local_rank: int
    pid: int | None
    exitcode: int
    error_file: str = ""
    timestamp: float = 0.0
    reason: str = ""
    stderr_tail: list[str] = field(default_factory=list)
    error_file_data: dict[str, Any] = field(default_factory=dict)
    message: str = ""
    exception: BaseException | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.error_file_data = self.error_file_data or read_error_file(self.error_file)
        self.message = self.message or _message_of(self.error_file_data) or self.reason
        self.timestamp = min(self.timestamp or time.time(), _time_written(self.error_file))

    @property
    def traceback(self) -> str:
        """The Python call stack from the error file; empty when there is none."""
        return str(_extra_info(self.error_file_data).get("py_callstack", ""))

    def timestamp_isoformat(self) -> str:
        """When it failed, in local time, as ``2026-11-30T12:00:00.250``."""
        seconds, thousandths = divmod(int(self.timestamp * 1000), 1000)
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(seconds))}.{thousandths:03}"

    def signal_name(self) -> str:
        """The name of the signal that ended the worker; empty when none did."""
        return signal_name(self.exitcode)


class ChildFailedError(Exception):
    """Workers failed and there was no restart left; ``failures`` holds them by global rank."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("a ChildFailedError needs at least one failure")
        self.name = name
        self.failures = failures
        super().__init__(name, failures)

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The failure with the earliest timestamp, with its global rank."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)

    def __str__(self) -> str:
        """A report: the root cause first, then the failures that came after it."""
        cause, _ = self.get_first_failure()
        others = [rank for rank in self.failures if rank != cause]
        rule = "=" * 60
        lines = [rule, f"{self.name} FAILED", "", "Root cause:", *self._describe(cause)]
        for number, rank in enumerate(others, start=1):
            lines += ["", f"Other failure {number} of {len(others)}:", *self._describe(rank)]
        return "\n".join([*lines, rule])

    def _describe(self, rank: int) -> list[str]:
        failure = self.failures[rank]
        told = failure.traceback or failure.message or "\n".join(failure.stderr_tail)
        return [
            f"  time      : {failure.timestamp_isoformat()}",
            f"  host      : {os.uname().nodename}",
            f"  rank      : {rank} (local rank {failure.local_rank})",
            f"  end       :{_with_pid(failure.pid)} {describe_exit(failure.exitcode)}",
            f"  error file: {failure.error_file or 'none'}",
            *(f"    {line}" for line in told.splitlines()),
        ]


class SignalException(Exception):
    """A stop signal reached the agent; ``sigval`` is which. Leaves ``run()`` of the torch API."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: whoever interrupts a cell does not ask where the agent was."""
        return [f"{type(self).__name__}: {self}"]


def is_told_to_stop(error: BaseException) -> bool:
    """Whether it is a stop signal that was raised. By name: a subclass of an agent may use torch's
    processes, whose handlers raise torch's own class."""
    return any(base.__name__ == SignalException.__name__ for base in type(error).__mro__)


def _with_pid(pid: int | None) -> str:
    return f" (pid {pid})" if pid else ""


def read_error_file(path: str) -> dict[str, Any]:
    """What a worker left about its error; empty when there is nothing that can be read."""
    if not path:
        return {}
    try:
        data = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):  # absent, or cut off by the death of its writer
        return {}
    return data if isinstance(data, dict) else {"message": str(data)}


def _extra_info(data: dict[str, Any]) -> dict[str, Any]:
    message = data.get("message")
    extra = message.get("extraInfo") if isinstance(message, dict) else None
    return extra if isinstance(extra, dict) else {}


def _message_of(data: dict[str, Any]) -> str:
    message = data.get("message", "")
    return str(message.get("message", "") if isinstance(message, dict) else message)


def _time_written(path: str) -> float:
    """When a file was written; infinity when there is none."""
    try:
        return Path(path).stat().st_mtime if path else math.inf
    except OSError:
        return math.inf

"""What looks after workers and answers for the agent, as the environment asks for it.

The names of the variables are torch's.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from elastic_fsm.launchers.local import MARK
from elastic_fsm.launchers.procfs import read_stat
from elastic_fsm.problems import BadInput, Problem
from elastic_fsm.timer import TIMER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from elastic_fsm.engine import Engine
    from elastic_fsm.group import WorkerGroup
    from elastic_fsm.loop import Loop
    from elastic_fsm.sources.base import Source

__all__ = [
    "ENABLE",
    "PORT",
    "SLEEP",
    "check_environment",
    "health_address",
    "health_checks",
    "sleep_limit",
    "timer_file",
    "watchdogs",
]

ENABLE = "TORCHELASTIC_ENABLE_FILE_TIMER"
SLEEP = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"
PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
HOST = "ELASTIC_FSM_HEALTH_CHECK_HOST"
"""Not torch's; by default the loopback interface, where nobody else can ask."""


def timer_file() -> str:
    """Where the agent reads requests for timers; empty when nobody asked for that.

    In a private folder unless the environment names a file. An agent inside a worker has a pipe
    of its own: what it has inherited is the outer agent's.
    """
    if os.environ.get(ENABLE) != "1":
        return ""
    given = "" if MARK in os.environ else os.environ.get(TIMER_FILE, "")
    import tempfile  # slow to load, and few runs ask for timers

    folder = os.path.join(tempfile.gettempdir(), f"elastic_fsm_{secrets.token_hex(8)}")
    return given or os.path.join(folder, "timers")


def sleep_limit(given: float | None = None) -> float:
    """Seconds that a worker may stay in uninterruptible sleep; 0: for ever.

    What the environment says unless it is ``given``. Raises ``ValueError`` for what is no time.
    """
    if given is not None:
        return max(0.0, given)
    text = os.environ.get(SLEEP) or "0"
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < float("inf"):
        raise ValueError(f"{SLEEP} must be a number of seconds, not {text!r}")
    return limit


def watchdogs(
    loop: Loop, group: WorkerGroup, say: Callable[[str], object], *, file: str, limit: float
) -> list[Source]:
    """Timers that are read from ``file``, and a look at workers that sleep longer than ``limit``
    seconds; neither where that is empty or 0."""
    found: list[Source] = []
    if file:  # few runs ask for either
        from elastic_fsm.sources.timers import FileTimers

        found.append(FileTimers(loop, file, group, say))
    if limit:
        from elastic_fsm.sources.sleepers import Sleepers

        found.append(Sleepers(loop, group, limit, _state_of))
    return found


def _state_of(pid: int) -> str:
    process = read_stat(pid)
    return process.state if process else ""


def health_checks(
    engine: Callable[[], Engine], loop: Loop, *, asks_loop: bool = True
) -> list[Source]:
    """The health check that the environment asks for, if it does.

    Raises ``ValueError`` for a port that is none.
    """
    address = health_address()
    if address is None:
        return []
    from elastic_fsm.health import HealthCheck  # it loads an HTTP server

    host, port = address
    return [HealthCheck(engine, loop, host=host, port=port, asks_loop=asks_loop)]


def health_address() -> tuple[str, int] | None:
    """Where the health check that the environment asks for listens; None when it asks for none.

    Raises ``ValueError`` for a port that is none.
    """
    text = os.environ.get(PORT, "")
    if not text or MARK in os.environ:  # in a worker it is the outer agent's
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) > 65535:
        raise ValueError(f"{PORT} must be a port, not {text!r}")
    return os.environ.get(HOST) or "127.0.0.1", int(text)


def check_environment() -> None:
    """Raises :class:`BadInput` with all that is wrong with the variables of this module."""
    problems = list(_problems())
    if problems:
        raise BadInput(problems)


def _problems() -> Iterator[Problem]:
    try:
        sleep_limit()
    except ValueError as error:
        yield Problem(str(error), where="environment", fix="0, or to unset it, means for ever")
    yield from _health_problems()
    if file := timer_file():
        yield from _timer_problems(file)


def _timer_problems(file: str) -> Iterator[Problem]:
    from elastic_fsm.sources.timers import is_taken, refuse_unusable

    if is_taken(file):
        what = f"{file} is in use: another agent reads it, or it is no pipe"
        fix = f"unset {TIMER_FILE}: each agent then has a pipe of its own"
        yield Problem(what, where="environment", fix=fix)
        return
    try:
        refuse_unusable(file)
    except OSError as error:
        what = f"the pipe {TIMER_FILE}={file} cannot be made: {error.strerror}"
        fix = f"give {TIMER_FILE} another place, or unset {ENABLE}"
        yield Problem(what, where="environment", fix=fix)


def _health_problems() -> Iterator[Problem]:
    fix = f"give {PORT} a port that is free"
    try:
        address = health_address()
        if address is not None:
            from elastic_fsm.health import refuse_taken

            refuse_taken(address)
    except ValueError as error:
        yield Problem(str(error), where="environment", fix=fix)
    except OSError as error:
        what = f"the health check cannot listen at {os.environ.get(PORT)}: {error.strerror}"
        yield Problem(what, where="environment", fix=fix)

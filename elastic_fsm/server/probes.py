"""What looks after the workers of an agent of the Python API, and answers for the agent."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING, Any

from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.sources.base import Source
from elastic_fsm.sources.timers import FileTimerRequest, FileTimers
from elastic_fsm.watchdogs import health_checks, timer_file, watchdogs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from elastic_fsm.engine import Engine
    from elastic_fsm.loop import Loop
    from elastic_fsm.server.simple import SimpleElasticAgent

__all__ = ["observers_of", "record_expiry", "sources_of"]

log = logging.getLogger("elastic_fsm")


def sources_of(
    owner: SimpleElasticAgent, engine: Callable[[], Engine], loop: Loop, *, asks_loop: bool
) -> list[Source]:
    """Health check, timers, and the look at sleepers, as far as somebody asked for them.

    ``asks_loop``: a loop that does not answer is no sign of life.
    """
    if not isinstance(owner, LocalElasticAgent):
        return health_checks(engine, loop, asks_loop=asks_loop)
    dogs = watchdogs(
        loop,
        owner._worker_group,
        log.warning,
        file=timer_file(),
        limit=owner._uninterruptible_state_timeout,
    )
    owner._timers = next((dog for dog in dogs if isinstance(dog, FileTimers)), None)
    if _has_own_health_check(owner):
        return [OwnHealthCheck(owner), *dogs]
    return [*health_checks(engine, loop, asks_loop=asks_loop), *dogs]


def _has_own_health_check(owner: LocalElasticAgent) -> bool:
    is_overridden = type(owner)._setup_healthcheck is not LocalElasticAgent._setup_healthcheck
    return is_overridden or owner._health_check_server is not None


class OwnHealthCheck(Source):
    """The server that the owner was given, or makes, from the beginning of a run to its end."""

    def __init__(self, owner: LocalElasticAgent) -> None:
        self._owner = owner

    def start(self) -> None:
        """Let the owner start it."""
        self._owner._begin_health_check()

    def close(self) -> None:
        """Stop it."""
        self._owner._end_health_check()


def observers_of(owner: SimpleElasticAgent) -> list[Callable[[Mapping[str, Any]], None]]:
    """What records the timers that expired."""
    if not isinstance(owner, LocalElasticAgent):
        return []
    told = owner

    def tell(record: Mapping[str, Any]) -> None:
        if record.get("outcome") == "step" and record["event"]["name"] == "timer_expired":
            record_expiry(told, record["event"]["data"], record["time"])

    return [tell]


def record_expiry(owner: LocalElasticAgent, data: Mapping[str, Any], time: float) -> None:
    """Record a timer that expired at that epoch time; ``data`` are those of its event."""
    number = int(signal.Signals[data["signal"]]) if data["signal"] else 0
    request = FileTimerRequest(data["pid"], data["scope"], time, number)
    owner._log_watchdog_event("timer expired", request)
    if number:
        owner._log_watchdog_event("kill worker process", request)

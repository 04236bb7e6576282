"""Event records: what happened to the agent and its workers, for a log collector.

Names, fields and keys are those of ``torch.distributed.elastic.events``. A record goes, as one
line of JSON, to the logger ``torchelastic-events-<sink>``; the sinks are in :data:`SINKS`, which
may be added to. Unlike torch's, a record has the time at which it happened.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from elastic_fsm.telemetry.mishaps import harmless

__all__ = [
    "SINKS",
    "Event",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
]

log = logging.getLogger("elastic_fsm")

SINKS: dict[str, logging.Handler] = {
    "console": logging.StreamHandler(),
    "dynamic_rendezvous": logging.NullHandler(),
    "null": logging.NullHandler(),
}
"""Where records go, by name: the value of ``WorkerSpec.event_log_handler``."""


class EventSource(StrEnum):
    """Who a record speaks of."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(StrEnum):
    """What a node is doing, in a record of its rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """One record. ``timestamp`` is epoch milliseconds, of its making unless it is given."""

    name: str
    source: EventSource
    timestamp: int = field(default_factory=lambda: int(time.time() * 1000))
    metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """The inverse of :meth:`serialize`; a record is returned as it is."""
        if isinstance(data, Event):
            return data
        values = json.loads(data)
        return Event(**{**values, "source": EventSource(values["source"])})


@dataclass
class RdzvEvent:
    """One record of a rendezvous, made by one node."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    def serialize(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def deserialize(data: str | RdzvEvent) -> RdzvEvent:
        """The inverse of :meth:`serialize`; a record is returned as it is."""
        if isinstance(data, RdzvEvent):
            return data
        values = json.loads(data)
        return RdzvEvent(**{**values, "node_state": NodeState(values["node_state"])})


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a sink. Raises ``ValueError`` for a name that is in no :data:`SINKS`, or where
    there is no handler."""
    if not isinstance(destination, str) or destination not in SINKS:
        known = ", ".join(sorted(SINKS))
        raise ValueError(f"unknown event_log_handler {destination!r}; known are {known}")
    handler = SINKS[destination]
    if not isinstance(handler, logging.Handler):
        raise ValueError(f"event_log_handler {destination!r} is no logging.Handler: {handler!r}")
    return handler


def record(event: Event, destination: str = "null") -> None:
    """Write a record to a sink; a handler that fails is told of once."""
    _write(event.serialize(), destination)


def record_rdzv_event(event: RdzvEvent) -> None:
    """Write a rendezvous record to the sink ``dynamic_rendezvous``."""
    _write(event.serialize(), "dynamic_rendezvous")


def construct_and_record_rdzv_event(
    run_id: str,
    message: str,
    node_state: NodeState,
    name: str = "",
    hostname: str = "",
    pid: int | None = None,
    master_endpoint: str = "",
    local_id: int | None = None,
    rank: int | None = None,
) -> None:
    """Make a rendezvous record of this process and write it, where anybody listens."""
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    record_rdzv_event(
        RdzvEvent(
            name=name,
            run_id=run_id,
            message=message,
            hostname=hostname or socket.gethostname(),
            pid=os.getpid() if pid is None else pid,
            node_state=node_state,
            master_endpoint=master_endpoint,
            rank=rank,
            local_id=local_id,
        )
    )


def _write(line: str, destination: str) -> None:
    logger = _logger(destination)
    with harmless(logger.handlers[0], "handler of event records"):
        logger.info(line)


def _logger(destination: str) -> logging.Logger:
    """The logger of a sink, with that sink's handler and no other."""
    handler = get_logging_handler(destination)
    logger = logging.getLogger(f"torchelastic-events-{destination}")
    if logger.handlers != [handler]:
        logger.handlers = [handler]
        logger.setLevel(logging.INFO if isinstance(handler, logging.NullHandler) else _level())
        logger.propagate = False
    return logger


def _level() -> int:
    """What ``LOGLEVEL`` says, by name or number. Many programs read that variable, each in its
    own way: one that says nothing to us must not end a run."""
    text = os.environ.get("LOGLEVEL") or "INFO"
    if text.isdecimal():
        return int(text)
    levels = logging.getLevelNamesMapping()
    if text.upper() not in levels:
        known = ", ".join(sorted(levels))
        log.warning("LOGLEVEL: unknown level %r, INFO is used; known are %s", text, known)
    return levels.get(text.upper(), logging.INFO)

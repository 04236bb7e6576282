"""The names of ``torch.distributed.elastic.events``."""

from __future__ import annotations

from elastic_fsm.telemetry.events import (
    Event,
    EventSource,
    NodeState,
    RdzvEvent,
    construct_and_record_rdzv_event,
    get_logging_handler,
    record,
    record_rdzv_event,
)

__all__ = [
    "Event",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
]

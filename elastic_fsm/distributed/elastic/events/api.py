"""The names of ``torch.distributed.elastic.events.api``."""

from __future__ import annotations

from elastic_fsm.telemetry.events import (
    Event,
    EventSource,
    NodeState,
    RdzvEvent,
)

__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent"]

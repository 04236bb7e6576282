"""The names of ``torch.distributed.elastic.events.handlers``."""

from __future__ import annotations

from elastic_fsm.telemetry.events import SINKS as _log_handlers
from elastic_fsm.telemetry.events import get_logging_handler

__all__ = ["_log_handlers", "get_logging_handler"]

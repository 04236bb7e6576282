"""The names of ``torch.distributed.elastic.multiprocessing.errors``."""

from __future__ import annotations

from elastic_fsm.failures import ChildFailedError, ProcessFailure
from elastic_fsm.worker import ErrorHandler, get_error_handler, record

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

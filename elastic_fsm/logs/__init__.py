"""The workers' log files, and the one thread that owns the console."""

from __future__ import annotations

from elastic_fsm.logs.console import Console
from elastic_fsm.logs.files import last_lines

__all__ = ["Console", "last_lines"]

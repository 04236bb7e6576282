"""The names of ``torch.distributed.elastic.utils.api``."""

from __future__ import annotations

from elastic_fsm.launchers.macros import macros

__all__ = ["macros"]

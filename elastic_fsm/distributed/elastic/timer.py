"""The names of ``torch.distributed.elastic.timer`` that a worker uses; the agent is the server."""

from __future__ import annotations

from elastic_fsm.timer import FileTimerClient, TimerClient, configure, expires

__all__ = ["FileTimerClient", "TimerClient", "configure", "expires"]

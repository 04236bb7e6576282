"""The names of ``torch.distributed.elastic.agent.server.local_elastic_agent``."""

from __future__ import annotations

from elastic_fsm.server.local import LocalElasticAgent

__all__ = ["LocalElasticAgent"]

"""The names of ``torch.distributed.elastic.agent.server.health_check_server``."""

from __future__ import annotations

from elastic_fsm.health import HealthCheckServer, create_healthcheck_server

__all__ = ["HealthCheckServer", "create_healthcheck_server"]

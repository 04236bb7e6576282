"""The names of ``torch.distributed.elastic.rendezvous.registry``."""

from __future__ import annotations

from elastic_fsm.rendezvous.handler_registry import get_rendezvous_handler
from elastic_fsm.rendezvous.handler_registry import rendezvous_handler_registry as handler_registry

__all__ = ["get_rendezvous_handler", "handler_registry"]

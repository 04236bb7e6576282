"""The names of ``torch.distributed.elastic.agent.server.local_elastic_agent``."""

from __future__ import annotations

from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.timer import TIMER_FILE as TORCHELASTIC_TIMER_FILE
from elastic_fsm.watchdogs import ENABLE as TORCHELASTIC_ENABLE_FILE_TIMER
from elastic_fsm.watchdogs import PORT as TORCHELASTIC_HEALTH_CHECK_PORT
from elastic_fsm.watchdogs import SLEEP as TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT

__all__ = [
    "TORCHELASTIC_ENABLE_FILE_TIMER",
    "TORCHELASTIC_HEALTH_CHECK_PORT",
    "TORCHELASTIC_TIMER_FILE",
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
    "LocalElasticAgent",
]

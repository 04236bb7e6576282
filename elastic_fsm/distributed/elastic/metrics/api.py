"""The names of ``torch.distributed.elastic.metrics.api``."""

from __future__ import annotations

from elastic_fsm.telemetry.metrics import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    NullMetricHandler,
    configure,
    prof,
    put_metric,
)

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "NullMetricHandler",
    "configure",
    "prof",
    "put_metric",
]

"""Counters and durations, handed to whoever configured a handler; by default to nobody.

Names are those of ``torch.distributed.elastic.metrics``.
"""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, overload

from elastic_fsm.telemetry.mishaps import harmless

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "NullMetricHandler",
    "configure",
    "prof",
    "put_metric",
]

P = ParamSpec("P")
R = TypeVar("R")

GROUP = "torchelastic"


class MetricData(NamedTuple):
    """One value; ``timestamp`` is epoch seconds."""

    timestamp: int
    group_name: str
    name: str
    value: int


class MetricHandler(ABC):
    """Takes values: writes them, sends them, adds them up."""

    @abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one value; what it raises is told of once, and ends nothing."""


class ConsoleMetricHandler(MetricHandler):
    """Prints each value."""

    def emit(self, metric_data: MetricData) -> None:
        """See :meth:`MetricHandler.emit`."""
        when, group, name, value = metric_data
        print(f"[{when}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """Drops each value."""

    def emit(self, metric_data: MetricData) -> None:
        """See :meth:`MetricHandler.emit`."""


_default: list[MetricHandler] = [NullMetricHandler()]
_of_group: dict[str, MetricHandler] = {}


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Hand the values of a group to ``handler``; without a group, those of all other groups.

    Raises ``TypeError`` for what is no handler.
    """
    if isinstance(handler, type) or not callable(getattr(handler, "emit", None)):
        raise TypeError(f"handler must be a MetricHandler, not {handler!r}")
    if group is None:
        _default[0] = handler
    else:
        _of_group[group] = handler


def put_metric(metric_name: str, metric_value: int, metric_group: str = GROUP) -> None:
    """Hand over one value; a handler that fails is told of once."""
    handler = _of_group.get(metric_group, _default[0])
    with harmless(handler, "metric handler"):
        handler.emit(MetricData(int(time.time()), metric_group, metric_name, metric_value))


@overload
def prof(fn: Callable[P, R]) -> Callable[P, R]: ...


@overload
def prof(*, group: str = ...) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def prof(fn: Callable[P, R] | None = None, group: str = GROUP) -> Any:
    """Count the ends of a function and put its duration.

    The metrics are ``<qualified name>.success`` or ``.failure``, and ``.duration.ms``.
    """
    if fn is None:
        return functools.partial(prof, group=group)
    name = fn.__qualname__

    @functools.wraps(fn)
    def timed(*args: P.args, **kwargs: P.kwargs) -> R:
        start = time.monotonic()
        outcome = "failure"
        try:
            result = fn(*args, **kwargs)
            outcome = "success"
            return result
        finally:
            put_metric(f"{name}.{outcome}", 1, group)
            put_metric(f"{name}.duration.ms", int((time.monotonic() - start) * 1000), group)

    return timed

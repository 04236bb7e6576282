"""Durations as people write them (seconds, or ``500ms``, ``30s``, ``5m``, ``2h``) and read them."""

from __future__ import annotations

import re
from typing import Any

from elastic_fsm.problems import cut

__all__ = ["LONGEST", "parse_duration", "say_duration", "say_seconds"]

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 1e10
"""Seconds, three centuries: no timer takes infinity, and null means never."""
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*")


def parse_duration(value: Any) -> float | None:
    """Seconds; None (never) for None. Raises ``ValueError`` for anything else."""
    if value is None:
        return None
    seconds = value
    if isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        seconds = float(match[1]) * _UNITS[match[2]]
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if number and 0 <= seconds <= LONGEST:
        return float(seconds)
    raise ValueError(f"{cut(value)} is not a duration; give seconds, or 500ms, 30s, 5m, 2h")


def say_duration(seconds: float) -> str:
    """``0s``, ``250ms``, ``40s``, ``10.05s``, ``1m 40s``, ``2h 0m 5s``, ``1d 3h 0m``.

    From a minute on to the second, from a day on to the minute.
    """
    if 0 < seconds < 0.9995:
        return f"{max(1, round(seconds * 1000))}ms"
    if seconds < 59.995:
        return f"{round(seconds, 2):g}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h {minutes}m"
    return f"{hours}h {minutes}m {rest}s" if hours else f"{minutes}m {rest}s"


def say_seconds(seconds: float) -> str:
    """The number by itself, for readers that know no units and no exponents: ``0.25``, ``7200``."""
    return f"{seconds:f}".rstrip("0").rstrip(".")

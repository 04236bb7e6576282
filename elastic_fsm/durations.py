"""Durations as people write them: a number of seconds, or ``500ms``, ``30s``, ``5m``, ``2h``."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["parse_duration"]

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*")


def parse_duration(value: Any) -> float | None:
    """Seconds; None (never) for None. Raises ``ValueError`` for anything else."""
    if value is None:
        return None
    if isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        return float(match[1]) * _UNITS[match[2]]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and value >= 0:
        return float(value)
    raise ValueError(f"{value!r} is not a duration: give seconds, or 500ms, 30s, 5m, 2h")

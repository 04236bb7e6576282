"""Reaction: from the moment a worker exits with 1 until the last of its 7 peers has SIGTERM."""

from __future__ import annotations

import random
import sys

from agents import WORKERS, Options, Run, Side
from harness import Measurement, Row, compare

LINGERING = {"BENCH_LINGER_MS": "20"}
"""The signal is measured, not how long the ends of some workers take from the others."""


def failing() -> dict[str, str]:
    """Some rank, at some moment: no fixed place in the round of an agent that polls."""
    return {
        "BENCH_FAIL_RANK": str(random.randrange(WORKERS)),
        "BENCH_FAIL_AFTER_MS": str(random.randint(500, 700)),
    }


def measure(side: Side, options: Options) -> dict[str, float]:
    with Run(side, options, "fail", environment=failing() | LINGERING) as run:
        (failed,) = run.wait_for("failed", 1)
        stopped = run.wait_for("stopped", WORKERS - 1)
        return {"signalled": (max(stamp.value for stamp in stopped) - failed.value) / 1e6}


MEASUREMENT = Measurement(
    "signalled",
    measure,
    (Row("signalled", "worker exit to last peer signalled", "ms", at_most=2.0),),
    with_bare_loop=True,
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

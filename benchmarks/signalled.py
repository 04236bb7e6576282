"""Reaction: from the moment a worker exits with 1 until the last of its 7 peers has SIGTERM."""

from __future__ import annotations

import random
import sys

from agents import WORKERS, Options, Run, Side
from harness import Measurement, Row, compare


def failing() -> dict[str, str]:
    """Some rank, at some moment: no fixed place in the round of an agent that polls."""
    return {
        "BENCH_FAIL_RANK": str(random.randrange(WORKERS)),
        "BENCH_FAIL_AFTER_MS": str(random.randint(500, 700)),
    }


def reaction(side: Side, options: Options, lingering: int) -> float:
    """Milliseconds; workers end so many after they took the signal."""
    environment = failing() | {"BENCH_LINGER_MS": str(lingering)}
    with Run(side, options, "fail", environment=environment) as run:
        (failed,) = run.wait_for("failed", 1)
        stopped = run.wait_for("stopped", WORKERS - 1)
        return (max(stamp.value for stamp in stopped) - failed.value) / 1e6


def measure(side: Side, options: Options) -> dict[str, float]:
    """When workers end at once, the ends of some take the processors from the others."""
    return {
        "signalled": reaction(side, options, lingering=0),
        "signalled_lingering": reaction(side, options, lingering=20),
    }


MEASUREMENT = Measurement(
    "signalled",
    measure,
    (
        Row("signalled", "worker exit to last peer signalled", "ms", at_most=2.0),
        Row("signalled_lingering", "the same, when workers end 20 ms later", "ms", at_most=2.0),
    ),
    with_bare_loop=True,
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

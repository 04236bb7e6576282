"""Restart: from the moment a worker exits with 1 until all 8 workers run again."""

from __future__ import annotations

import sys

from agents import Options, Run, Side
from harness import Measurement, Row, compare
from signalled import failing


def restart(side: Side, options: Options, mode: str) -> float:
    """Milliseconds, with workers of this kind."""
    with Run(side, options, mode, max_restarts=1, environment=failing()) as run:
        (failed,) = run.wait_for("failed", 1)
        running = run.wait_for("running", start=1)
        return (max(stamp.value for stamp in running) - failed.value) / 1e6


def measure(side: Side, options: Options) -> dict[str, float]:
    """A worker that waits for SIGTERM may have had a stop, for whose other copy the agent waits
    (``stop.window``) before it calls that a failure."""
    return {
        "restart": restart(side, options, "crash"),
        "restart_of_who_waits": restart(side, options, "fail"),
    }


MEASUREMENT = Measurement(
    "restart",
    measure,
    (
        Row("restart", "failure to last restarted worker running", "ms", at_most_of_torchrun=0.2),
        Row("restart_of_who_waits", "the same, when workers wait for SIGTERM", "ms"),
    ),
    with_bare_loop=True,
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

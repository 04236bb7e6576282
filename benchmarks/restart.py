"""Restart: from the moment a worker exits with 1 until all 8 workers run again."""

from __future__ import annotations

import sys

from agents import Options, Run, Side
from harness import Measurement, Row, compare
from signalled import failing


def measure(side: Side, options: Options) -> dict[str, float]:
    with Run(side, options, "fail", max_restarts=1, environment=failing()) as run:
        (failed,) = run.wait_for("failed", 1)
        running = run.wait_for("running", start=1)
        return {"restart": (max(stamp.value for stamp in running) - failed.value) / 1e6}


MEASUREMENT = Measurement(
    "restart",
    measure,
    (Row("restart", "failure to last restarted worker running", "ms", at_most_of_torchrun=0.2),),
    with_bare_loop=True,
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

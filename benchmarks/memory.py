"""Memory: what the agent's process holds while 8 workers run, and its helper processes' own."""

from __future__ import annotations

import sys
import time

import psutil
from agents import Options, Run, Side
from harness import Measurement, Row, compare

MEBIBYTE = 1 << 20
SETTLING = 1.0


def measure(side: Side, options: Options) -> dict[str, float]:
    with Run(side, options, "idle") as run:
        run.wait_for("running")
        time.sleep(SETTLING)
        agent = psutil.Process(run.agent.pid).memory_info().rss
        # A forked helper shares most pages with the agent: count what is its own.
        helpers = sum(helper.memory_full_info().uss for helper in run.helpers())
        return {"memory": agent / MEBIBYTE, "helpers": helpers / MEBIBYTE}


MEASUREMENT = Measurement(
    "memory",
    measure,
    (
        Row("memory", "agent's resident memory", "MiB", at_most=45.0),
        Row("helpers", "helper processes' own memory", "MiB"),
    ),
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

"""Idling: how often an agent with 8 sleeping workers wakes up, and the CPU time it takes.

Counted for all threads of the agent and of its helper processes, with output to a pipe.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from agents import Options, Run, Side
from harness import Measurement, Row, compare

SETTLING = 2.0


def activity(run: Run) -> tuple[int, float]:
    """Context switches of both kinds, and CPU milliseconds, so far."""
    switches, nanoseconds = 0, 0
    for pid in [run.agent.pid, *(helper.pid for helper in run.helpers())]:
        for task in Path(f"/proc/{pid}/task").iterdir():
            status = (task / "status").read_text()
            # Finds "nonvoluntary_" as well.
            switches += sum(map(int, re.findall(r"voluntary_ctxt_switches:\s+(\d+)", status)))
            # Its first number; the clock ticks of `stat` would be too coarse.
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return switches, nanoseconds / 1e6


def measure(side: Side, options: Options) -> dict[str, float]:
    with Run(side, options, "idle") as run:
        run.wait_for("running")
        time.sleep(SETTLING)
        before = activity(run)
        time.sleep(options.idle_seconds)
        after = activity(run)
        return {"switches": after[0] - before[0], "idle_cpu": after[1] - before[1]}


MEASUREMENT = Measurement(
    "idle",
    measure,
    (
        Row("switches", "context switches in {idle_seconds:g} s of idling", at_most=0, worst=True),
        Row("idle_cpu", "CPU time in {idle_seconds:g} s of idling", "ms"),
    ),
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

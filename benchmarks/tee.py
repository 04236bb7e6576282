"""Tee: 8 workers write 100-byte lines, which are kept in files and shown on a pipe.

Twice: as fast as they can, where the agent lags behind, and with pauses, where it catches up again
and again and finds lines that are not finished yet.

Measured from the first worker's first instruction to the end of the output, so that the launch,
measured elsewhere, is left out. The CPU time is that of the agent and its helper processes: what
the kernel has booked on the agent and all the children that it has reaped, less what the workers
report of themselves at their end, less what the agent had used when the workers began.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import psutil
from agents import WORKERS, Failed, Options, Run, Side, build
from harness import Measurement, Row, compare

LINES_PER_MEGABYTE = 10_000
# After every 400 lines: at most 8 MB a second from each worker.
PAUSE_US = 5_000


def measure(side: Side, options: Options) -> dict[str, float]:
    lines = options.megabytes * LINES_PER_MEGABYTE
    fast = tee(side, options, lines, pause_us=0)
    paused = tee(side, options, lines // 10, pause_us=PAUSE_US)
    spoilt = {f"paused_{name}": paused[name] for name in ("broken", "lost", "doubled")}
    return {**fast, "paused_cpu": paused["cpu"], **spoilt}


def tee(side: Side, options: Options, lines: int, *, pause_us: int) -> dict[str, float]:
    """One run: wall and CPU seconds, and what became of the lines."""
    checker = subprocess.Popen(
        [str(build("check_lines")), str(WORKERS), str(lines)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        environment = {"BENCH_LINES": str(lines), "BENCH_PAUSE_US": str(pause_us)}
        with Run(
            side, options, "lines", tee=True, environment=environment, stdout=checker.stdin
        ) as run:
            checker.stdin.close()  # the agent's end is the only one left
            checker.stdin = None
            (first,) = run.wait_for("running", 1)
            before = psutil.Process(run.agent.pid).cpu_times()
            workers = run.wait_for("used")
            total = run.wait_for_end()
            counts = json.loads(checker.communicate(timeout=options.timeout)[0])
            wall = time.monotonic_ns() - first.value
            if run.agent.returncode != 0:
                raise Failed(f"the agent exited with {run.agent.returncode}\n{run.last_words()}")
    finally:
        checker.kill()
        checker.wait()
    used = total - sum(stamp.value for stamp in workers) / 1e9 - before.user - before.system
    return {
        "wall": wall / 1e9,
        "cpu": used,
        **{name: counts[name] for name in ("broken", "lost", "doubled")},
    }


MEASUREMENT = Measurement(
    "tee",
    measure,
    (
        Row("wall", "tee of 8 x {megabytes} MB: time", "s", at_most_of_torchrun=1.0),
        Row("cpu", "tee of 8 x {megabytes} MB: agent's CPU", "s", at_most_of_torchrun=1.0),
        Row("broken", "tee: lines broken", at_most=0, worst=True),
        Row("lost", "tee: lines lost", at_most=0, worst=True),
        Row("doubled", "tee: lines doubled", at_most=0, worst=True),
        Row("paused_cpu", "tee with pauses, a tenth of the data: agent's CPU", "s"),
        Row("paused_broken", "tee with pauses: lines broken", at_most=0, worst=True),
        Row("paused_lost", "tee with pauses: lines lost", at_most=0, worst=True),
        Row("paused_doubled", "tee with pauses: lines doubled", at_most=0, worst=True),
    ),
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

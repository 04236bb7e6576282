"""Launch: from starting the command to the first instruction of the last of 8 workers."""

from __future__ import annotations

import sys

from agents import Options, Run, Side
from harness import Measurement, Row, compare


def measure(side: Side, options: Options) -> dict[str, float]:
    with Run(side, options, "idle") as run:
        running = run.wait_for("running")
        return {"launch": (max(stamp.value for stamp in running) - run.began) / 1e9}


MEASUREMENT = Measurement(
    "launch",
    measure,
    (Row("launch", "command start to last worker running", "s", at_most_of_torchrun=0.23),),
    with_bare_loop=True,
)

if __name__ == "__main__":
    sys.exit(compare([MEASUREMENT], __doc__))

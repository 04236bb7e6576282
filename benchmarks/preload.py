"""Restart of 4 workers that import torch: from a failure until all of them have it again.

    python benchmarks/preload.py                      # about three minutes
    python benchmarks/preload.py --quick

Ours with ``launcher=forkserver launcher.preload=[torch]``, in turns with torchrun. Needs torch.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agents import Options, Run, Side
from harness import Measurement, Row, machine, note, parse, table, take_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKERS = 4
SCRIPT = """
import os, time
import torch

start, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]

def stamp(what):
    with open(os.environ["BENCH_STAMPS"], "w") as stamps:
        stamps.write(f"{what} {start} {rank} {os.getpid()} {time.monotonic_ns()}\\n")

stamp("running")
if start == "0" and rank == "0":
    with open(os.environ["BENCH_GATE"]) as gate:
        gate.readline()
    stamp("failed")
    raise SystemExit(1)
time.sleep(600)
"""


@dataclass(frozen=True)
class TorchSide(Side):
    """An agent that runs a Python script in place of the C program."""

    def command(
        self, worker: Sequence[str], folder: Path, *, max_restarts: int = 0, tee: bool = False
    ) -> list[str]:
        script = folder / "train.py"
        script.write_text(SCRIPT)
        if self.name == "torchrun":
            words = [f"--nproc-per-node={WORKERS}", f"--max-restarts={max_restarts}"]
            return [*self.program.split(), *words, str(script)]
        words = ["run", "-n", str(WORKERS), f"run_dir={folder / 'runs'}", "logs=tee"]
        words += ["launcher=forkserver", "launcher.preload=[torch]"]
        return [*self.program.split(), *words, f"spec.max_restarts={max_restarts}", str(script)]


def measure(side: Side, options: Options) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder) / "gate"
        os.mkfifo(gate)
        return _restart(side, options, gate)


def _restart(side: Side, options: Options, gate: Path) -> dict[str, float]:
    environment = {"BENCH_GATE": str(gate)}
    with Run(side, options, "", max_restarts=1, environment=environment) as run:
        running = run.wait_for("running", WORKERS)
        first = max(stamp.value for stamp in running) - run.began
        gate.write_text("go\n")
        (failed,) = run.wait_for("failed", 1)
        again = run.wait_for("running", WORKERS, start=1)
        restart = max(stamp.value for stamp in again) - failed.value
        return {"preload_start": first / 1e6, "preload_restart": restart / 1e6}


MEASUREMENT = Measurement(
    "preload",
    measure,
    (
        Row("preload_start", "command to 4 workers that have imported torch", "ms"),
        Row(
            "preload_restart",
            "failure to 4 restarted workers that have imported torch",
            "ms",
            at_most_of_torchrun=0.2,
        ),
    ),
)


def main() -> int:
    options = parse(__doc__)
    sides = [TorchSide("elastic-fsm", options.ours), TorchSide("torchrun", options.torchrun)]
    sides = [side for side in sides if options.only in (None, side.name)]
    results = take_turns(MEASUREMENT, sides, options)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=2))
    note(f"{machine()}; {WORKERS} workers; medians of {options.repeat} rounds")
    print(table(MEASUREMENT.rows, results, options))
    wanted = options.repeat * len(sides)
    return 0 if all(len(v) == wanted for row in results.values() for v in row.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""What the measurements share: rounds in turns, the table with its goals, and the command line.

A measurement is a function ``(side, options) -> {row: value}`` that starts one agent with 8
workers, waits for time stamps from the workers, and ends everything again. The sides take turns
within one run of the harness, so that whatever else the machine does meets both; the medians are
compared, and for faults such as a lost line the worst rounds. Workers are a small C program, for
the start of a Python worker would hide the agent's. Short times are taken of a bare loop, too: what
the machine itself needs, which on a busy day is a multiple of what it is on a quiet one.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from agents import HERE, WORKERS, Failed, Options, Run, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIDES = ("elastic-fsm", "torchrun", "bare loop")


@dataclass(frozen=True)
class Row:
    """A line of the table; ``title`` may name options in braces."""

    key: str
    title: str
    unit: str = ""
    # Ours may be at most this, or at most this share of torchrun's; None: no goal.
    at_most: float | None = None
    at_most_of_torchrun: float | None = None
    # A fault counts by its worst round, not by the median.
    worst: bool = False

    def summary(self, values: Sequence[float]) -> float:
        return max(values) if self.worst else statistics.median(values)

    def goal(self) -> str:
        if self.at_most is not None:
            return f"at most {show(self.at_most, self.unit)}"
        if self.at_most_of_torchrun is not None:
            return f"ratio at most {self.at_most_of_torchrun:g}"
        return "-"

    def met(self, ours: float | None, torchrun: float | None) -> str:
        if ours is None or (self.at_most is None and self.at_most_of_torchrun is None):
            return "-"
        if self.at_most is not None:
            return "yes" if ours <= self.at_most else "**no**"
        if torchrun is None:
            return "-"
        return "yes" if ours <= self.at_most_of_torchrun * torchrun else "**no**"


@dataclass(frozen=True)
class Measurement:
    name: str
    measure: Callable[[Side, Options], dict[str, float]]
    rows: tuple[Row, ...]
    with_bare_loop: bool = False

    def choose(self, sides: Sequence[Side]) -> list[Side]:
        """Those that it is taken of."""
        return [side for side in sides if self.with_bare_loop or side.name != "bare loop"]


# row -> side -> one value for each round
Results = dict[str, dict[str, list[float]]]


def take_turns(measurement: Measurement, sides: Sequence[Side], options: Options) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    sides = measurement.choose(sides)
    for turn in range(options.repeat):
        for side in sides if turn % 2 == 0 else reversed(sides):
            try:
                values = measurement.measure(side, options)
            except (Failed, OSError, psutil.Error, subprocess.SubprocessError) as error:
                note(f"{measurement.name} {side.name}: {type(error).__name__}: {error}")
                continue
            shown = "  ".join(f"{key}={value:.6g}" for key, value in values.items())
            note(f"{measurement.name} {turn + 1}/{options.repeat} {side.name}: {shown}")
            for key, value in values.items():
                results[key][side.name].append(value)
    return results


def note(text: str) -> None:
    """Progress and trouble, apart from the table."""
    print(text, file=sys.stderr, flush=True)


def show(value: float, unit: str) -> str:
    """Three figures, but counts whole."""
    if unit == "":
        return f"{value:,.0f}"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f} {unit}"


def table(rows: Sequence[Row], results: Results, options: Options) -> str:
    lines = [
        "| measured | elastic-fsm | torchrun | ratio | bare loop | goal | met |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for row in rows:
        values_of = {side: row.summary(values) for side, values in results.get(row.key, {}).items()}
        ours, theirs = values_of.get("elastic-fsm"), values_of.get("torchrun")
        bare = values_of.get("bare loop")
        ratio = f"{ours / theirs:.3f}" if ours is not None and theirs else "-"
        shown = ["-" if value is None else show(value, row.unit) for value in (ours, theirs, bare)]
        cells = [
            row.title.format_map(vars(options)),
            *shown[:2],
            ratio,
            shown[2],
            row.goal(),
            row.met(ours, theirs),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def machine() -> str:
    """One line on where the numbers come from."""
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "not installed"
    return (
        f"{os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}, "
        f"torch {torch}"
    )


# The command line


def parse(description: str | None, arguments: Sequence[str] | None = None) -> Options:
    programs = Path(sys.executable).parent
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5, help="rounds for each side (5)")
    parser.add_argument("--quick", action="store_true", help="few rounds, little data: a trial")
    parser.add_argument("--only", choices=SIDES, help="one side alone")
    parser.add_argument("--ours", default=str(programs / "elastic-fsm"), metavar="COMMAND")
    parser.add_argument("--torchrun", default=str(programs / "torchrun"), metavar="COMMAND")
    parser.add_argument("--timeout", type=float, default=120, help="for any one wait, seconds")
    parser.add_argument("--idle-seconds", type=float, default=30)
    parser.add_argument("--megabytes", type=int, default=50, help="that each worker writes")
    parser.add_argument("--json", type=Path, help="write every single value to this file")
    options = parser.parse_args(arguments)
    if options.quick:
        options.repeat = min(options.repeat, 2)
        options.idle_seconds, options.megabytes = 5.0, 5
    return options


def compare(measurements: Sequence[Measurement], description: str | None) -> int:
    """Measure the sides in turns and print the table: the whole of every script here."""
    options = parse(description)
    bare = f"{sys.executable} {HERE / 'bare.py'}"
    sides = list(map(Side, SIDES, (options.ours, options.torchrun, bare)))
    sides = [side for side in sides if options.only in (None, side.name)]
    results: Results = {}
    for side in sides:  # once, uncounted, to fill the caches
        try:
            with Run(side, options, "idle") as run:
                run.wait_for("running")
        except (Failed, OSError) as error:
            note(f"{side.name} cannot be measured: {error}")
            return 1
    for measurement in measurements:
        results |= take_turns(measurement, sides, options)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=2))
    print(
        f"{machine()}; {WORKERS} workers; "
        f"medians of {options.repeat} rounds, worst round for faults\n"
    )
    rows = [row for measurement in measurements for row in measurement.rows]
    print(table(rows, results, options))
    wanted = options.repeat * sum(len(m.choose(sides)) * len(m.rows) for m in measurements)
    taken = sum(len(values) for row in results.values() for values in row.values())
    return 0 if taken == wanted else 1

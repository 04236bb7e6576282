"""What one event costs the agent: facts, step and journal line. Ours only; torchrun has none.

    python benchmarks/journal.py                # 10,000 events; fails above 60 µs each
    python benchmarks/journal.py --events 100000 --at-most 50

Two kinds are measured, with 8 workers, each through the real ``Agent.handle`` into a file: events
that change nothing, and those of whole restarts, where the time that actions take (here: planning
the next start) is left out. The records are counted and not kept, as in a real run. The best of
many short rounds is taken, for all else that runs on the machine only ever makes it slower.

How fast the machine is today tell the bare libraries: one step of ``transitions``, one such record
through ``json``, one write.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transitions

from elastic_fsm.events import Event
from elastic_fsm.testing import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WORKERS = 8
ROUNDS = 50


class Count:
    """An observer: how many records there were."""

    def __init__(self, run: Scenario) -> None:
        self.records = 0
        run.observers[:] = [self.add]  # in place of the scenario's own, which keeps them

    def add(self, record: Mapping[str, Any]) -> None:
        self.records += 1


def until_healthy(run: Scenario) -> None:
    """Let the loop run until all workers do."""
    while run.agent.machine.state.name != "HEALTHY":
        run.agent.handle(run.loop.next_event())


def in_healthy(events: int, folder: Path) -> tuple[float, int]:
    """Signals that mean nothing: three conditions are asked, an internal transition is taken."""
    run = Scenario("elastic", workers=WORKERS, journal=folder / "healthy.jsonl")
    run.loop.post(Event("run_requested"))
    until_healthy(run)
    count = Count(run)
    event = Event("signal_received", {"signal": "SIGUSR1"})
    begin = time.perf_counter()
    for _ in range(events):
        run.agent.handle(event)
    took = time.perf_counter() - begin
    run.agent.close()
    run.loop.close()
    return took, count.records


def restarts(events: int, folder: Path) -> tuple[float, int]:
    """A worker fails, the group is stopped and started again."""
    budget = events // 13 + 1
    run = Scenario(
        "elastic", workers=WORKERS, max_restarts=budget, journal=folder / "restarts.jsonl"
    )
    run.loop.post(Event("run_requested"))
    until_healthy(run)
    count = Count(run)
    watch = Watch(run)
    for _ in range(budget):
        run.launcher.exits(0, 1)
        watch.handle(run.loop.next_event())
        until_healthy(run)
    took = watch.seconds
    run.agent.close()
    run.loop.close()
    return took, count.records


class Watch:
    """Times ``Agent.handle`` without what it spends in actions."""

    def __init__(self, run: Scenario) -> None:
        self.seconds = 0.0
        self._handle, self._actions = run.agent.handle, run.agent._run_actions
        run.agent.handle, run.agent._run_actions = self.handle, self.actions

    def handle(self, event: Event) -> None:
        begin = time.perf_counter()
        self._handle(event)
        self.seconds += time.perf_counter() - begin

    def actions(self, *arguments: object) -> None:
        begin = time.perf_counter()
        self._actions(*arguments)
        self.seconds -= time.perf_counter() - begin


def bare(events: int, folder: Path) -> tuple[float, int]:
    """What the first kind takes of the libraries alone: a condition says no, another step is
    taken, and a record of the same shape is written."""
    model = type("Model", (), {})()
    machine = transitions.Machine(
        model, states=["HEALTHY", "STOPPING"], initial="HEALTHY", send_event=True
    )
    machine.add_transition("signal_received", "HEALTHY", "STOPPING", conditions=lambda data: False)
    machine.add_transition("signal_received", "HEALTHY", None, before=lambda data: None)
    in_healthy(1, folder)
    record = json.loads((folder / "healthy.jsonl").read_bytes().splitlines()[-1])
    with (folder / "bare.jsonl").open("wb", buffering=0) as file:
        begin = time.perf_counter()
        for number in range(events):
            model.signal_received(number)
            file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        return time.perf_counter() - begin, events


def best(measure: Callable[[int, Path], tuple[float, int]], events: int) -> float:
    """Microseconds for one event, of the best round; ``events`` in all."""
    found = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            took, count = measure(events // ROUNDS, Path(folder))
            found.append(took / count * 1e6)
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--at-most", type=float, default=60.0, metavar="MICROSECONDS")
    options = parser.parse_args()
    values = {
        "an event that changes nothing": best(in_healthy, options.events),
        "an event of a restart, without its actions": best(restarts, options.events),
    }
    for name, value in values.items():
        print(f"{name}: {value:.1f} µs (at most {options.at_most:g})")
    print(
        f"of that the libraries alone, without rules and facts: {best(bare, options.events):.1f} µs"
    )
    return int(max(values.values()) > options.at_most)


if __name__ == "__main__":
    sys.exit(main())

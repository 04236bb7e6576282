"""The run's journal: one JSON object a line, a header first, then a line for each event.

A line is written, whole and unbuffered, before the actions of its step run, so that the file
tells what was decided even when the agent dies in the middle of doing it. A journal that cannot
be written warns once; the run is worth more than its diary.
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from elastic_fsm.machine import Ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from elastic_fsm.events import Event
    from elastic_fsm.facts import Facts
    from elastic_fsm.machine import Step, Verdict

__all__ = ["FORMAT", "Journal", "describe_step"]

FORMAT = 1
"""Version of the format; it changes when a reader of an older one would go wrong."""


class Journal:
    """Appends records to a file; with no path it only numbers them."""

    def __init__(self, path: Path | None, warn: Callable[[str], None] = lambda text: None) -> None:
        self._path = path
        self._warn = warn
        self._file: IO[bytes] | None = None
        self._sequence = 0
        if path is not None:
            self._attempt(lambda: self._open(path))

    def header(self, values: Mapping[str, Any]) -> None:
        """The first line: what a reader needs to understand the others."""
        self._append({"format": FORMAT, **values})

    def write(self, record: Mapping[str, Any]) -> None:
        """One event's line; gives it the next number, from 1."""
        self._sequence += 1
        self._append({"seq": self._sequence, **record})

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            self._attempt(file.close)

    def _open(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._file is not None:
            line = json.dumps(record, default=str, separators=(",", ":")).encode() + b"\n"
            self._attempt(lambda: self._write(line))

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        written = self._file.write(line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written")

    def _attempt(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            self.close()
            self._warn(f"the journal {self._path} cannot be written, the run goes on: {error}")


def describe_step(event: Event, facts: Facts, outcome: Step | Ignored | str) -> dict[str, Any]:
    """A record's part about what the machine did: a step, nothing, or a word such as ``stale``."""
    record: dict[str, Any] = {"event": _event(event), "facts": _facts(facts)}
    if isinstance(outcome, str):
        return {**record, "outcome": outcome}
    record["verdicts"] = [_verdict(v) for v in outcome.verdicts]
    if isinstance(outcome, Ignored):
        return {**record, "outcome": "ignored", "state": outcome.state}
    return {
        **record,
        "outcome": "step",
        "transition": outcome.transition,
        "source": outcome.source,
        "dest": outcome.dest,
        "entered": outcome.entered,
        "actions": [str(use) for use in outcome.actions],
    }


def _event(event: Event) -> dict[str, Any]:
    marks = {"attempt": event.attempt, "visit": event.visit}
    values = {"name": event.name, "data": dict(event.data)}
    return values | {name: mark for name, mark in marks.items() if mark is not None}


def _facts(facts: Facts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in facts.__slots__}


def _verdict(verdict: Verdict) -> list[Any]:
    return [verdict.transition, verdict.condition, verdict.held]

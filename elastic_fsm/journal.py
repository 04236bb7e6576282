"""The run's journal: one JSON object a line, a header first, then a line for each event.

A line is written, whole and unbuffered, before the actions of its step run, so that the file
tells what was decided even when the agent dies in the middle of doing it. A journal that cannot
be written warns once; the run is worth more than its diary.

A run may go on for weeks. When the file has grown to ``max_bytes`` it gets a number
(``journal-0.jsonl``) and a new one begins, with the header again and the sums of everything
before it. The first file tells how the run began, the last ones what matters now; those between
are dropped, and only their sums stay.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

from elastic_fsm.journal_line import to_line
from elastic_fsm.machine import ConditionFailed, Ignored
from elastic_fsm.tally import FORMAT, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from elastic_fsm.events import Event
    from elastic_fsm.facts import Facts
    from elastic_fsm.machine import Step

__all__ = ["FORMAT", "Journal", "describe_step"]


class Journal:
    """Appends records to a file; with no path it only numbers them.

    Of the files that were full, the first and the last ``keep`` stay. ``masked_texts`` are what
    to write of actions with a secret in their parameters, by what ``describe_step`` says of them.
    """

    def __init__(
        self,
        path: Path | None,
        warn: Callable[[str], None] = lambda text: None,
        *,
        max_bytes: int = 8 * 1024 * 1024,
        keep: int = 4,
        masked_texts: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path
        self._warn = warn
        self._max_bytes = max_bytes
        self._keep = keep
        self._masked_texts = masked_texts or {}
        self._file: IO[bytes] | None = None
        self._size = 0
        self._part = 0
        self._header: dict[str, Any] = {"format": FORMAT}
        self._tally = Tally()
        if path is not None:
            self._attempt(self._open, path)

    def header(self, values: Mapping[str, Any]) -> None:
        """The first line: what a reader needs to understand the others."""
        self._header |= values
        self._append(self._header)
        self._size = 0  # the head does not count: there is always room for what happens

    def write(self, record: Mapping[str, Any]) -> None:
        """One event's line; gives it the next number, from 1."""
        numbered = {"seq": self._tally.seq + 1, **record}
        if self._masked_texts and "actions" in record:
            numbered["actions"] = [self._masked_texts.get(t, t) for t in record["actions"]]
        self._tally.add(numbered)
        self._append(numbered)
        if self._size >= self._max_bytes and self._file is not None:
            self._attempt(self._rotate)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            self._attempt(file.close)

    def _open(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._attempt(self._put, to_line(record))

    def _put(self, line: bytes) -> None:
        assert self._file is not None
        self._size += len(line)
        while line:  # where there was room for a part only, the rest tells what is wrong
            line = line[self._file.write(line) :]

    def _rotate(self) -> None:
        """Go on in a new file. It is read as the newest from its first line on."""
        assert self._file is not None
        assert self._path is not None
        self._file.close()
        self._path.rename(self._numbered(self._part))
        self._part += 1
        self._open(self._path)
        head = self._header | {"part": self._part, "carried": self._tally.to_dict()}
        self._put(to_line(head))
        self._size = 0
        dropped = self._part - 1 - self._keep
        if dropped > 0:
            self._numbered(dropped).unlink(missing_ok=True)

    def _numbered(self, part: int) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.stem}-{part}{self._path.suffix}")

    def _attempt(self, call: Callable[..., object], *arguments: Any) -> None:
        try:
            call(*arguments)
        except OSError as error:
            self.close()
            self._warn(f"the journal {self._path} cannot be written, the run goes on: {error}")


def describe_step(
    event: Event, facts: Facts, outcome: Step | Ignored | ConditionFailed | str
) -> dict[str, Any]:
    """A record's part about what the machine did: a step, nothing, or a word such as ``stale``."""
    known = facts._asdict() | {"exit_codes": dict(facts.exit_codes)}  # json wants a dictionary
    record: dict[str, Any] = {"event": _event(event), "facts": known}
    if isinstance(outcome, str):
        record["outcome"] = outcome
        return record
    record["verdicts"] = [list(verdict) for verdict in outcome.verdicts]
    if isinstance(outcome, Ignored):
        record |= {"outcome": "ignored", "state": outcome.state}
    elif isinstance(outcome, ConditionFailed):
        record |= {"outcome": "failed", "state": outcome.state, "error": str(outcome)}
    else:
        record |= {
            "outcome": "step",
            "transition": outcome.transition,
            "source": outcome.source,
            "dest": outcome.dest,
            "entered": outcome.entered,
            "actions": [str(use) for use in outcome.actions],
        }
    return record


def _event(event: Event) -> dict[str, Any]:
    values: dict[str, Any] = {"name": event.name, "data": dict(event.data)}
    if event.attempt is not None:
        values["attempt"] = event.attempt
    if event.visit is not None:
        values["visit"] = event.visit
    return values

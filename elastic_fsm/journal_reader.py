"""Reads a run's journal back, whole or as far as it goes, also while it is being written.

A long journal is several files: ``journal.jsonl`` is the newest, ``journal-0.jsonl`` the first,
and between them some may have been dropped; each begins with the header and, from the second on,
with the sums of all before it. The newest is read first: whatever is rotated meanwhile is then
known by its number and not read twice.

The agent may be killed, or the disk be full, in the middle of a line. A last line without its end
is left out and said to be torn. A line inside that cannot be read, or that is no line of ours, is
left out and named in ``damaged`` with what is wrong with it: whoever has a record can rely on it.
Lines are numbered, so where some were taken out, doubled or moved that is seen: ``jumps``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.journal_line import is_as_written
from elastic_fsm.journal_shape import fault_of_header, fault_of_record
from elastic_fsm.narration import counted
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem
from elastic_fsm.tally import FORMAT, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "DEFAULT_RUNS",
    "Gap",
    "JournalFile",
    "find_run",
    "has_journal",
    "node_folders",
    "parse_header",
    "parse_record",
    "read_journal",
]

DEFAULT_RUNS = Path("elastic_runs")
_CURRENT = "journal.jsonl"
# Of damaged lines, and of jumps, so many are named.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing lines: ``records[index]`` is the first after them, ``before`` the sums up to it.

    They were dropped to keep the journal small, or are ``lost``: a file before ``path`` was
    changed, or is gone.
    """

    index: int
    missing: int
    before: Tally
    path: Path
    lost: bool


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A journal as it was found. ``summary`` covers dropped lines, too.

    ``damaged`` holds ``file:line: what is wrong`` for each line that was left out, ``changed``
    ``file:line`` of headers that are used although they do not fit their checksum. ``jumps`` says
    where the lines of a file are not numbered one after the other, or the files do not follow.
    """

    path: Path
    header: dict[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    torn: bool = False
    summary: Tally = field(default_factory=Tally)
    gaps: tuple[Gap, ...] = ()
    damaged: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    jumps: tuple[str, ...] = ()
    places: tuple[tuple[Path, int], ...] = ()
    first: Path | None = None
    """The file whose header is :attr:`header`, if it is not ``path``, the newest."""

    def where(self, index: int) -> str:
        """``file:line`` of a record."""
        path, line = self.places[index]
        return f"{path}:{line}"

    def blame_header(self, error: BadInput) -> BadInput:
        """What is wrong with the machine of the header, with its place, and whether it was
        changed after it was written."""
        place = f"{self.first or self.path}:1"
        found = [problem._replace(where=problem.where or place) for problem in error.problems]
        if place in self.changed:
            found.insert(0, Problem("the header was changed after it was written", where=place))
        return BadInput(found)

    @property
    def is_as_written(self) -> bool:
        """Whether nothing was changed or lost, as far as can be seen; the last line may be torn."""
        lost = any(gap.lost for gap in self.gaps)
        return not (self.damaged or self.changed or self.jumps or lost)

    def remarks(self) -> list[str]:
        """What is to be said about the file itself: what is not in the records, and why."""
        said = [self._missing(gap) for gap in self.gaps]
        if self.torn:
            said.append("the last line was not written to its end, and is left out")
        if self.jumps:
            said.append(_some(self.jumps, "more place"))
        if self.damaged:
            said.append(f"left out, for it cannot be used: {_some(self.damaged, 'more line')}")
        if self.changed:
            where = ", ".join(self.changed)
            said.append(f"used, though it was changed after it was written: the header {where}")
        return said

    def _missing(self, gap: Gap) -> str:
        lines = counted(gap.missing, "line")
        if gap.lost:
            return f"missing before {gap.path}: {lines}"
        return f"dropped to keep the journal small: {lines}, whose sums were kept"

    @property
    def final(self) -> bool:
        """Whether the machine has come to a final state."""
        states = self.header["machine"]["states"]
        return bool((states.get(self.summary.state) or {}).get("final"))


def _some(faults: Sequence[str], more: str) -> str:
    """The first of them, and how many ``more`` there are."""
    rest = len(faults) - _NAMED
    return "; ".join([*faults[:_NAMED], *([f"and {counted(rest, more)}"] if rest > 0 else [])])


def read_journal(path: Path) -> JournalFile:
    """The journal of a node's folder, or a journal file with all that belongs to it.

    Raises :class:`BadInput` when there is none, or one that this version cannot read.
    """
    newest = path / _CURRENT if path.is_dir() else _newest_of(path)
    current = _read_part(newest)
    number = current.header.get("part", 0) if current else None
    earlier = [file for n, file in _rotated(newest) if number is None or n < number]
    parts = [part for part in map(_read_part, earlier) if part]
    parts += [current] if current else []
    if not parts:
        raise _without_header(newest)
    return _join(newest, parts)


def _without_header(newest: Path) -> BadInput:
    if newest.exists() or _rotated(newest):
        what = "the journal has no header: its agent died in its first moment, or has just begun"
        return BadInput.of(what, where=str(newest), fix="to see which: elastic-fsm status")
    return BadInput.of(
        f"there is no journal: {newest}",
        where=COMMAND_LINE,
        fix="give the folder of a run, as in elastic_runs/latest",
    )


def find_run(path: Path | None = None) -> list[Path]:
    """The node folders of a run (:func:`read_journal` takes each), in order of their names.

    ``path`` is a run's folder, a node's folder, a journal file, or a folder of runs, whose
    ``latest`` is taken; by default ``elastic_runs``. Raises :class:`BadInput` when there is none.
    """
    given = DEFAULT_RUNS if path is None else path
    if given.is_file():
        return [given.parent if given.name == _CURRENT else given]
    for folder in (given, given / "latest"):
        if has_journal(folder):
            return [folder.resolve()]
        if nodes := node_folders(folder):
            return nodes
    raise BadInput.of(
        f"there is no run in {given}",
        where=COMMAND_LINE,
        fix="name the folder of a run, as in elastic_runs/latest; `elastic-fsm status` lists them",
    )


def node_folders(run: Path) -> list[Path]:
    """The folders of a run that hold a journal; a link such as ``latest`` is followed."""
    if not run.is_dir():
        return []
    return [node for node in sorted(run.resolve().iterdir()) if has_journal(node)]


def has_journal(folder: Path) -> bool:
    """Whether a folder is that of a node; an agent may have died between two files.

    Of one that may not be entered nobody knows: it is none, and hides nothing of the others.
    """
    names = (_CURRENT, "journal-0.jsonl")
    return any(os.path.isfile(folder / name) for name in names)  # Path.is_file would raise


@dataclass(slots=True)
class _Part:
    """One file."""

    path: Path
    header: dict[str, Any]
    sealed: bool
    torn: bool
    records: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Of the file, from 0."""
        return int(self.header.get("part", 0))

    @property
    def carried(self) -> Tally:
        """The sums of all before it."""
        return Tally.from_dict(self.header.get("carried", {}))


def _newest_of(path: Path) -> Path:
    """``journal.jsonl`` for ``journal-3.jsonl``, ``journal.0.jsonl`` for ``journal.0-3.jsonl``."""
    stem, _, number = path.stem.rpartition("-")
    return path.with_name(f"{stem}{path.suffix}") if stem and number.isdecimal() else path


def _rotated(newest: Path) -> list[tuple[int, Path]]:
    prefix = f"{newest.stem}-"
    found = [
        (file.stem.removeprefix(prefix), file)
        for file in newest.parent.glob(f"{prefix}*{newest.suffix}")
    ]
    return sorted((int(number), file) for number, file in found if number.isdecimal())


def _read_part(path: Path) -> _Part | None:
    """A file; None when it is not there, or has no header yet."""
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        what = f"the journal cannot be read: {error.strerror}"
        raise BadInput.of(what, where=str(path), fix="see whose it is, and what it is") from error
    if not lines:
        return None
    sealed = any(map(is_as_written, lines))
    part = _Part(path, parse_header(lines[0], path, sealed=sealed), sealed, torn=bool(rest))
    for number, line in enumerate(lines[1:], start=2):
        record, fault = parse_record(line, sealed=sealed)
        if fault is None:
            part.records.append((number, record))
        else:
            part.damaged.append(f"{path}:{number}: {fault}")
    return part


def parse_header(line: bytes, path: Path, *, sealed: bool = False) -> dict[str, Any]:
    """The first line of a file; see :func:`parse_record` for its ``check``.

    Raises :class:`BadInput` when it is none, or that of a format which this version cannot read.
    """
    header = _object(line, sealed)
    if header is None or "format" not in header:
        fault = "it is not that of a journal"
    elif header["format"] != FORMAT:
        raise BadInput.of(
            f"the journal has format {header['format']}, not {FORMAT}",
            where=str(path),
            fix=f"read it with elastic_fsm {header.get('elastic_fsm')}",
        )
    elif not (fault := fault_of_header(header) or ""):
        return header
    what, fix = f"the first line is not a header: {fault}", "restore the file as it was written"
    raise BadInput.of(what, where=str(path), fix=fix)


def parse_record(line: bytes, *, sealed: bool = False) -> tuple[dict[str, Any], str | None]:
    """Another line, and what is wrong with it; it may be used only when that is None.

    It has a ``check`` only when that does not fit the line; None when there is none, though in a
    ``sealed`` file each line has one: whoever took it out has changed the line.
    """
    record = _object(line, sealed)
    if record is None:
        return {}, "it is no JSON object"
    return record, fault_of_record(record)


def _object(line: bytes, sealed: bool) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if is_as_written(line):
        value.pop("check", None)
    elif sealed:
        value.setdefault("check", None)
    return value


def _join(newest: Path, parts: list[_Part]) -> JournalFile:
    records: list[dict[str, Any]] = []
    places: list[tuple[Path, int]] = []
    gaps: list[Gap] = []
    tally = Tally()
    before: _Part | None = None
    for part in parts:
        carried = part.carried
        if carried.seq > tally.seq:
            missing, lost = carried.seq - tally.seq, not _are_dropped_between(before, part)
            gaps.append(Gap(len(records), missing, carried, part.path, lost))
            tally = part.carried
        before = part
        for number, record in part.records:
            tally.add(record)
            records.append(record)
            places.append((part.path, number))
    return JournalFile(
        path=newest,
        header=parts[0].header,
        records=records,
        torn=parts[-1].torn,
        summary=tally,
        gaps=tuple(gaps),
        damaged=tuple(_damaged(parts)),
        changed=tuple(_changed(parts)),
        jumps=tuple(_jumps(parts)),
        places=tuple(places),
        first=parts[0].path,
    )


def _damaged(parts: list[_Part]) -> Iterator[str]:
    for part in parts:
        yield from part.damaged
        if part.torn and part is not parts[-1]:
            yield f"{part.path}: the last line was not written to its end"


def _changed(parts: list[_Part]) -> Iterator[str]:
    """Headers that do not fit their checksum, and those of files that have lost all of them."""
    sealed = any(part.sealed for part in parts)
    for part in parts:
        if "check" in part.header or part.sealed != sealed:
            yield f"{part.path}:1"


def _jumps(parts: list[_Part]) -> Iterator[str]:
    """A line's number is one more than that of the line before it; lines that were left out may
    have had one, too. What is missing between two files is a :class:`Gap`."""
    last = 0
    for part in parts:
        seq, line = part.carried.seq, 1
        if seq < last:
            yield f"doubled, or in another order: the lines of {part.path}"
        for number, record in part.records:
            missing = record["seq"] - seq - (number - line)
            if missing > 0:
                yield f"missing before {part.path}:{number}: {counted(missing, 'line')}"
            if record["seq"] <= seq:
                yield f"doubled, or in another order: {part.path}:{number}"
            seq, line = record["seq"], number
        last = seq


def _are_dropped_between(before: _Part | None, part: _Part) -> bool:
    """Whether files are dropped there: the first one stays, and so do the last ones."""
    return before is not None and before.number == 0 and part.number > 1

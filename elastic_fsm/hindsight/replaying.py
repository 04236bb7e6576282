"""``elastic-fsm replay``: which machine is given the journal, and what is said of the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.explain import clock
from elastic_fsm.hindsight.lines import happened
from elastic_fsm.hindsight.replay import recorded_machine, replay
from elastic_fsm.hindsight.story import tell_ends
from elastic_fsm.journal_reader import read_journal
from elastic_fsm.machine import load_machine
from elastic_fsm.narration import counted
from elastic_fsm.plugins import rules_for
from elastic_fsm.printable import printable
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.hindsight.replay import Difference, Replayed
    from elastic_fsm.journal_reader import JournalFile
    from elastic_fsm.machine import Machine

__all__ = ["other_machine", "own_machine", "replay_node"]

_MOST = 20


def replay_node(
    node: Path, overrides: Sequence[str] = (), job_file: Path | None = None
) -> tuple[str, bool]:
    """Replay a node's journal; returns what to say, and whether there was no difference.

    With overrides or a job file another machine is given the events; without, the journal's own.
    Raises :class:`BadInput` when the journal or the machine cannot be used.
    """
    journal = read_journal(node)
    other = bool(overrides or job_file)
    machine = other_machine(journal, overrides, job_file) if other else own_machine(journal)
    outcome = replay(journal, machine, other=other)
    tell = _tell_other if other else _tell_own
    lines = [f"{journal.header.get('run_id')} on {journal.header.get('host')}:"]
    lines += [f"  {line}" for line in (*tell(journal, outcome), *journal.remarks())]
    agrees = journal.is_as_written and not outcome.differences and outcome.ended_at is None
    return "".join(printable(line) + "\n" for line in lines), agrees


# -- machines ----------------------------------------------------------------------------------


def own_machine(journal: JournalFile) -> Machine:
    """The machine that the journal's header holds, with the run's plugins.

    Raises :class:`BadInput` when it cannot be made.
    """
    plugins = journal.header.get("plugins", {})
    try:
        return recorded_machine(journal.header, rules_for(list(plugins), _folders(plugins)))
    except BadInput as error:
        raise journal.blame_header(error) from error


def other_machine(
    journal: JournalFile, overrides: Sequence[str], job_file: Path | None = None
) -> Machine:
    """The machine that these words make.

    They change the journal's own, unless they choose a machine; the values that it named are
    kept unless they are given. A job file describes the whole run, as for ``run``.
    """
    from elastic_fsm.config import compose

    plugins = journal.header.get("plugins", {})
    composed = compose(
        list(overrides), job_file=job_file, program=None if job_file else _kept(journal, overrides)
    )
    folders = [*_folders(plugins), *([job_file.parent] if job_file else [])]
    try:
        registry = rules_for(composed.values["plugins"], folders)
        return load_machine(composed.values["machine"], registry, composed.values)
    except BadInput as error:
        raise BadInput(map(composed.locate, error.problems)) from error


def _kept(journal: JournalFile, overrides: Sequence[str]) -> dict[str, Any]:
    header = journal.header
    kept = {**header.get("settings", {}), "plugins": list(header.get("plugins", {}))}
    chosen = any(word.startswith("machine=") for word in overrides)
    return kept if chosen else kept | {"machine": header["machine"]}


def _folders(plugins: Mapping[str, str | None]) -> list[Path]:
    """Where the modules were found: the folder above as many packages as the name has."""
    folders = []
    for name, file in plugins.items():
        above = list(Path(file or "").parents)
        depth = name.count(".") + (Path(file or "").stem == "__init__")
        folders += above[depth : depth + 1]
    return folders


# -- in words ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a record or a computed step leads."""

    values: Mapping[str, Any]

    def __str__(self) -> str:
        values = self.values
        if values.get("outcome") != "step":
            return f"{values.get('outcome')} in {values.get('state', '?')}"
        if not values["entered"]:
            return f"still {values['dest']} [{values['transition']}]"
        return f"{values['source']} -> {values['dest']} [{values['transition']}]"


def _tell_own(journal: JournalFile, outcome: Replayed) -> Iterator[str]:
    if not outcome.differences:
        agree = "journal and machine agree"
        if not journal.is_as_written:
            agree = "the machine agrees with the lines that are there"
        yield f"{counted(outcome.compared, 'line')}, no difference: {agree}"
        return
    first, *further = outcome.differences
    told = f"{counted(outcome.compared, 'line')}, {counted(outcome.differing, 'difference')}"
    yield f"{told}; the first:" if further else f"{told}:"
    yield from _difference(first)
    for difference in further:
        fields = ", ".join("checksum" if f == "check" else f for f in difference.fields)
        yield f"also {difference.where}: {fields}"


def _difference(difference: Difference) -> Iterator[str]:
    record = difference.recorded
    what = "?" if "form" in difference.fields else record.get("note") or happened(record)
    yield f"{difference.where} (seq {record.get('seq')}): {what}"
    for name in difference.fields:
        yield from (f"  {text}" for text in _field(name, record, difference.computed))


def _field(name: str, record: Mapping[str, Any], computed: Mapping[str, Any]) -> Iterator[str]:
    if name == "check":
        yield f"the line {_changed(record)}"
    elif name == "form":
        yield computed[name]
    else:
        yield f"{name}: the journal has {record.get(name, 'nothing')!r},"
        yield f"{' ' * len(name)}  the machine {computed.get(name, 'nothing')!r}"


def _tell_other(journal: JournalFile, outcome: Replayed) -> Iterator[str]:
    if not outcome.differences:
        yield f"{counted(outcome.compared, 'event')}: this machine would have gone the same way"
    else:
        first = outcome.differences[0]
        same = counted(first.index, "line")
        yield f"the same way for {same}; the first difference is {first.where},"
        yield f"at {clock(first.recorded['time'])}: {happened(first.recorded)}"
        yield from _both(first)
        yield from _further(outcome)
    if outcome.ended_at is not None:
        yield from _early_end(journal, outcome)
    changed = [index for index, record in enumerate(journal.records) if "check" in record]
    yield from tell_ends(
        changed,
        _MOST,
        0,
        lambda at: [f"{journal.where(at)} {_changed(journal.records[at])}"],
        "… and so were {} more",
    )


def _changed(record: Mapping[str, Any]) -> str:
    fault = "is gone" if record["check"] is None else "does not fit"
    return f"was changed after it was written: its checksum {fault}"


def _both(difference: Difference) -> Iterator[str]:
    yield f"  the run:       {_Way(difference.recorded)}{_decided(difference.recorded)}"
    yield f"  this machine:  {_Way(difference.computed)}{_decided(difference.computed)}"


def _decided(values: Mapping[str, Any]) -> str:
    verdicts = [
        f"{t}: {c} {'held' if held else 'did not hold'}" for t, c, held in values["verdicts"]
    ]
    return f"  ({'; '.join(verdicts)})" if verdicts else ""


def _further(outcome: Replayed) -> Iterator[str]:
    """The rest, with less trust: the events are answers to what the real run asked for."""
    further = outcome.differences[1:]
    if further:
        yield "from there on, as far as the events of the real run can tell:"
    for difference in further:
        record = difference.recorded
        yield f"  {clock(record['time'])} {happened(record)}"
        yield f"    the run: {_Way(record)}; this machine: {_Way(difference.computed)}"
    if more := outcome.differing - len(outcome.differences):
        yield f"  … and at {counted(more, 'more line')}"


def _early_end(journal: JournalFile, outcome: Replayed) -> Iterator[str]:
    assert outcome.ended_at is not None
    at, last = journal.records[outcome.ended_at]["time"], journal.records[-1]["time"]
    yield (
        f"this machine would have ended then, at {clock(at)}, in {outcome.final_state}; "
        f"the run went on for {say_duration(last - at)}"
    )

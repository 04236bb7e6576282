"""What must be true of every journal that any test writes: it fits the schema, and its own machine
takes every step of it again."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from elastic_fsm.hindsight.replay import recorded_machine, replay
from elastic_fsm.hindsight.replaying import own_machine
from elastic_fsm.journal import FORMAT
from elastic_fsm.journal_header import journal_header
from elastic_fsm.journal_reader import JournalFile, read_journal
from elastic_fsm.json_text import to_json

__all__ = ["check_all_below", "check_lines", "check_played", "check_replay"]

SCHEMA = Path(__file__).parent.parent / "docs" / "journal.schema.json"


@functools.cache
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def check_lines(lines) -> None:
    """Every line, header included, fits docs/journal.schema.json."""
    for line in lines:
        errors = list(validator().iter_errors(line))
        assert not errors, f"{json.dumps(line)[:400]}: {best_match(errors).message}"


def check_replay(journal, machine) -> None:
    """No difference, and nothing that was not compared."""
    outcome = replay(journal, machine)
    assert not outcome.differences, outcome.differences[0]
    assert outcome.compared == len(journal.records)


def check_all_below(folder: Path) -> int:
    """Every journal of real agents below a folder; returns how many there were."""
    paths = [path for path in folder.rglob("journal*.jsonl") if not _in_a_link(path, folder)]
    for path in paths:
        whole = path.read_bytes().rpartition(b"\n")[0].split(b"\n")
        if not whole[0]:
            continue  # the disk was full, or the agent was killed, before the first line
        check_lines(map(json.loads, whole))
        if "-" not in path.stem:
            journal = read_journal(path)
            _forget(journal.header["plugins"])
            check_replay(journal, own_machine(journal))
            _forget(journal.header["plugins"])
    return len(paths)


def _in_a_link(path: Path, folder: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if folder in parent.parents)


def _forget(plugins) -> None:
    """The plugins of two tests may have one name."""
    for name in plugins:
        sys.modules.pop(name, None)


def check_played(run, registry) -> None:
    """The records of a scenario, as they would be read back from a file."""
    records = [json.loads(to_json(record)) for record in run.records]
    numbered = [{"seq": number, **record} for number, record in enumerate(records, start=1)]
    values = journal_header(run.settings, run_id="scenario", host="node-0")
    header = json.loads(json.dumps({"format": FORMAT, **values}, default=str))
    check_lines([header, *_some(numbered)])
    places = tuple((Path("journal.jsonl"), number + 1) for number in range(1, len(numbered) + 1))
    journal = JournalFile(Path("journal.jsonl"), header, numbered, places=places)
    check_replay(journal, recorded_machine(header, registry))


def _some(lines):
    """The slow schema looks at one line of each form; the replay looks at all."""
    seen = {}
    for line in lines:
        seen.setdefault((line.get("outcome"), line.get("event", {}).get("name")), line)
    return seen.values()

"""The journal: whole lines, numbered, and never a reason to stop."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from elastic_fsm import json_text
from elastic_fsm.declaration import Use
from elastic_fsm.events import Event
from elastic_fsm.facts import Facts
from elastic_fsm.journal import FORMAT, Journal, describe_step
from elastic_fsm.journal_line import is_as_written, to_line
from elastic_fsm.machine import Ignored, Step, Verdict
from elastic_fsm.testing import Scenario


def lines_of(path):
    """What the lines say; each must fit its checksum, which is left out."""
    lines = path.read_bytes().splitlines()
    assert all(is_as_written(line) for line in lines if b"check" in line)
    return [{k: v for k, v in json.loads(line).items() if k != "check"} for line in lines]


def test_a_read_only_mapping_is_a_mapping_in_the_journal():
    assert json.loads(to_line(Facts()._asdict()))["exit_codes"] == {}


@pytest.mark.parametrize("in_c", [True, False])
def test_a_line_is_what_json_makes_of_a_record(in_c, monkeypatch):
    if not in_c:  # as where Python has only the encoder that is written in Python
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    record = {
        "text": 'é "\n\udcff', "numbers": (0, -1, 1.5, -0.0, 1e300), "words": [True, None],
        "by rank": {0: 1, 1: -15}, "empty": {}, "facts": Facts(exit_codes={}), "odd": Path("x"),
    }  # fmt: skip
    expected = json.dumps(record, default=str, separators=(",", ":"))
    assert json_text._encoder()(record) == expected


def test_a_line_is_sealed(tmp_path):
    line = to_line({"seq": 1, "text": "é"})
    assert json.loads(line) == {"seq": 1, "text": "é", "check": json.loads(line)["check"]}
    assert is_as_written(line)
    assert is_as_written(line.rstrip())
    assert not is_as_written(line.replace(b'"seq":1', b'"seq":2'))
    assert not is_as_written(line.replace(b'"check":"', b'"check":"0'))
    assert not is_as_written(json.dumps(json.loads(line)).encode())
    assert not is_as_written(b'{"seq":1}')


def itself():
    value = [1]
    value.append(value)
    return value


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no words")


def nested(times):
    value = 1
    for _ in range(times):
        value = {"inside": value}
    return value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({(0, 1): "a", None: True}, {"(0, 1)": "a", "None": True}),
        ([float("nan"), -float("inf"), 1.5], ["nan", "-inf", 1.5]),
        (nested(3) | {(): 1}, nested(3) | {"()": 1}),
        ({(): Path("x")}, {"()": "x"}),
        ([Unspeakable(), 10**5000], ["<Unspeakable>", "<int>"]),
        (Unspeakable(), "<Unspeakable>"),
    ],
)
def test_what_json_cannot_hold_is_told_in_text(value, told):
    line = to_line({"seq": 1, "event": {"name": "own", "data": {"x": value}}})
    assert is_as_written(line)
    assert json.loads(line)["event"]["data"] == {"x": told}


def a_family(size):
    """Links down and back: so many ways lead nowhere new."""
    parent = {"children": []}
    parent["children"] += [{"parent": parent, "number": number} for number in range(size)]
    return parent


@pytest.mark.parametrize("value", [itself(), nested(100_000), a_family(300)])
def test_what_holds_itself_is_cut(value):
    line = to_line({"seq": 1, "value": value})
    assert is_as_written(line)
    assert b'"..."' in line
    assert len(line) < 10_000


def test_a_header_and_then_numbered_lines_each_at_once(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.header({"run_id": "r"})
    assert lines_of(path) == [{"format": FORMAT, "run_id": "r"}]
    journal.write({"a": 1, "odd": Path("x")})
    assert path.read_bytes().splitlines()[-1].startswith(b'{"seq":1,"a":1,"odd":"x","check":"')
    journal.write({"text": "line\nbreak é \udcff"})
    assert [line.get("seq") for line in lines_of(path)] == [None, 1, 2]
    journal.close()
    journal.close()
    journal.write({"after": "the end"})
    assert len(lines_of(path)) == 3


def test_without_a_path_nothing_is_written():
    journal = Journal(None, warn=pytest.fail)
    journal.header({})
    journal.write({})
    journal.close()


def test_an_action_with_a_secret_is_written_without_it(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, masked_texts={"post(token=abc)": "post(token=***)"})
    record = {"actions": ["stop_workers", "post(token=abc)"]}
    journal.write(record)
    journal.write({"note": "no step"})
    journal.close()
    first, second = lines_of(path)
    assert first["actions"] == ["stop_workers", "post(token=***)"]
    assert second == {"seq": 2, "note": "no step"}
    assert record["actions"][1] == "post(token=abc)"  # it is the observers', too


def test_an_earlier_journal_is_continued_and_not_lost(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"earlier":1}\n')
    journal = Journal(path)
    journal.write({})
    journal.close()
    assert lines_of(path) == [{"earlier": 1}, {"seq": 1}]


@pytest.mark.parametrize("place", ["/dev/full", "{tmp}/no/such/folder/journal", "{tmp}"])
def test_a_journal_that_cannot_be_written_warns_once_and_the_run_goes_on(place, tmp_path):
    warnings = []
    path = Path(place.format(tmp=tmp_path))
    run = Scenario("fail_fast")
    run.agent.journal = Journal(path, warnings.append)
    run.agent.journal.header({})
    run.exits(0, code=3, at=10)
    assert run.play().exit_code == 3
    assert len(warnings) == 1
    assert warnings[0].startswith(f"the journal {path} cannot be written, the run goes on: ")


def test_a_line_that_was_written_in_part_is_the_last(tmp_path):
    warnings = []
    journal = Journal(tmp_path / "journal", warnings.append)

    class FullDisk:
        written = b""

        def write(self, data):
            if self.written:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.written = data[:5]
            return 5

        def close(self): ...

    journal.close()
    journal._file = disk = FullDisk()
    journal.write({"a": 1})
    journal.write({"a": 2})
    assert disk.written == b'{"seq'
    assert len(warnings) == 1
    assert "No space left on device" in warnings[0]


FACTS = Facts(now=1.0, exit_codes={1: -9})
EVENT = Event("worker_exited", {"local_rank": 1}, attempt=2)


def test_a_step_as_a_record():
    step = Step(
        "go", "worker_exited", "A", "B", entered=True,
        actions=(Use("stop", {"n": 1}),), verdicts=(Verdict("go", "unless x", held=True),),
    )  # fmt: skip
    record = describe_step(EVENT, FACTS, step)
    assert record.pop("facts") == {name: getattr(FACTS, name) for name in Facts._fields}
    assert record == {
        "event": {"name": "worker_exited", "data": {"local_rank": 1}, "attempt": 2},
        "verdicts": [["go", "unless x", True]],
        "outcome": "step",
        "transition": "go",
        "source": "A",
        "dest": "B",
        "entered": True,
        "actions": ["stop(n=1)"],
    }


def test_what_was_ignored_or_stale_as_a_record():
    ignored = Ignored("worker_exited", "A", (Verdict("go", "x", held=False),))
    record = describe_step(EVENT, FACTS, ignored)
    assert (record["outcome"], record["state"]) == ("ignored", "A")
    assert record["verdicts"] == [["go", "x", False]]
    stale = describe_step(Event("late", visit=3), FACTS, "stale")
    assert stale["outcome"] == "stale"
    assert stale["event"] == {"name": "late", "data": {}, "visit": 3}
    assert "verdicts" not in stale

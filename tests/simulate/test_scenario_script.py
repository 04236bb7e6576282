"""Scenario files are read as they are documented, and everything that is wrong is told at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from elastic_fsm.problems import BadInput
from elastic_fsm.scenario.forms import FORMS
from elastic_fsm.scenario.script import parse_script, read_script

HERE = Path(__file__).parent
DOCUMENTATION = HERE.parent.parent / "docs" / "scenarios.md"

EXAMPLES = {
    "T": "90s", "EACH": "1h", "N": "1", "SEED": "7", "CODE": "137", "SIGNAL": "SIGUSR1",
    "NAME": "spare_assigned", "NAMES": "elastic, fail_fast", "KEY": "stop.grace", "TEXT": "5s",
    "DATA": "exit_code=-9 reason='it is gone'",
}  # fmt: skip


def example(form) -> str:
    line = re.sub(r"\b[A-Z]+\b", lambda place: EXAMPLES[place[0]], form.usage)
    return f"at 40s {line}" if form.at else line


def problems_of(text: str) -> list[str]:
    with pytest.raises(BadInput) as found:
        parse_script(text, name="x.txt")
    return "\n".join(map(str, found.value.problems)).splitlines()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.usage)
def test_every_form_can_be_written(form):
    end = "" if form.kind == "end" else "end at 24h\n"
    script = parse_script(f"{example(form)}\n{end}")
    if form.kind == "machine":
        assert script.machines == ("elastic", "fail_fast")
    elif form.kind in ("workers", "max_restarts", "set"):
        (word,) = script.overrides
        assert word.partition("=")[2] in ("1", "5s")
    else:
        happening = script.happenings[0]
        assert happening.kind == form.kind
        assert happening.at == (40.0 if form.at else None)
        assert happening.where == "scenario:1"


def test_every_form_is_documented():
    text = DOCUMENTATION.read_text()
    missing = [form.usage for form in FORMS if f"`{form.usage}`" not in text]
    assert not missing


def test_what_stands_in_the_places():
    script = parse_script(
        "at 1.5m worker 2 takes 20s to stop and exits 3\n"
        "at 2s event x a=-9 b='two words'   # not this\n"
        "at 3s membership changes: node-1 came\n"
        "set spec.env.X=a#b\n"
    )
    conduct, event, change = script.happenings
    assert (conduct.at, conduct.rank, conduct.values) == (90, 2, {"N": 2, "T": 20.0, "CODE": 3})
    assert event.values == {"NAME": "x", "DATA": {"a": -9, "b": "two words"}}
    assert change.values == {"TEXT": "node-1 came"}
    assert script.overrides == ["spec.env.X=a#b"]


def test_a_file_has_two_parts():
    script = parse_script("# why\nworkers 2\n----\n   1s  x\n----\ny\n")
    assert script.story == "# why\nworkers 2\n"
    assert script.expected == "   1s  x\n----\ny\n"
    assert parse_script("workers 2").expected == ""


def test_everything_that_is_wrong_is_told_with_its_line():
    """REWRITE=1 writes the answer anew; keep only what you can explain."""
    found = problems_of((HERE / "bad_scenario.txt").read_text())
    expected = HERE / "bad_scenario.expected"
    if os.environ.get("REWRITE"):
        expected.write_text("\n".join(found) + "\n")
    assert found == expected.read_text().splitlines()


@pytest.mark.parametrize("line", ["failures every 1h seed 7", "membership changes every 1h seed 7"])
@pytest.mark.parametrize("end", ["end at 24h", "workers finish after 2h"])
def test_what_goes_on_for_ever_needs_an_end(line, end):
    assert problems_of(line)[0] == "x.txt:1: this goes on for ever"
    assert parse_script(f"{line}\n{end}")


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "crash.txt").write_text("workers 2\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "none").mkdir()
    for name, what in {
        "crsh.txt": "No such file or directory\n    did you mean 'crash.txt'?",
        "bytes.txt": "it is not text\n    save it as UTF-8",
        "": "Is a directory\n    name a file that may be read",
        "none/crash.txt": "No such file or directory\n    docs/scenarios.md says what such a file",
    }.items():
        with pytest.raises(BadInput, match=re.escape(f"no scenario can be read: {what}")):
            read_script(tmp_path / name)
    assert read_script(tmp_path / "crash.txt").folder == tmp_path

"""Odd journals: edited by hand, of another version, cut anywhere. Every verb goes on."""

from __future__ import annotations

import copy
import io
import json
from contextlib import suppress

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.graph.command import graph
from elastic_fsm.hindsight.explain import story_of
from elastic_fsm.hindsight.explain_text import render
from elastic_fsm.hindsight.page import render_page
from elastic_fsm.hindsight.replaying import replay_node
from elastic_fsm.hindsight.status import render as render_status
from elastic_fsm.hindsight.status import status_of
from elastic_fsm.journal_reader import read_journal
from elastic_fsm.problems import BadInput

GONE = object()
OTHERS = [None, "text", 1e400, True, {"x": None}]


def explain(node):
    story = story_of(node)
    assert render(story)
    assert render_page([story])
    json.dumps(story.to_dict())


def status(node):
    assert render_status(status_of(node))


def draw(node):
    graph(["--run", str(node)])


VERBS = [explain, replay_node, draw]


def try_all(node, seen):
    """Output, or BadInput, and nothing else; status shows the node in any case.

    Verbs see no more of a journal than what was read of it: what they have seen is not tried again.
    """
    status(node)
    try:
        journal = read_journal(node)
    except BadInput:
        return
    read = repr((journal.header, journal.records, journal.torn))
    if read in seen:
        return
    seen.add(read)
    for verb in VERBS:
        with suppress(BadInput):
            verb(node)


@pytest.fixture(autouse=True)
def _nothing_draws(monkeypatch):
    monkeypatch.setattr("elastic_fsm.graph.pictures.find_program", lambda: None)


TOLD = ("workers_started", "worker_exited", "signal_received")
LINE = {"time": 1_700_000_005.0, "monotonic": 5.0, "worker_state": "HEALTHY"}
MACHINE = {
    "initial": "INIT",
    "states": {
        "INIT": {"worker_state": "INIT", "on_enter": ["stop_workers"]},
        "HEALTHY": {"timeouts": {"slow": 7, "other": "stop.grace"}, "ignores": ["worker_exited"]},
        "FAILED": {"final": True, "exit_code": "worker"},
    },
    "transitions": {
        "begin": {"trigger": "run_requested", "source": ["INIT"], "dest": "HEALTHY"},
        "told": {
            "trigger": "signal_received",
            "source": "any",
            "dest": "FAILED",
            "conditions": [{"signal_in": "stop.signals"}],
            "priority": 3,
        },
    },
}


@pytest.fixture
def lines(play, node):
    """A line for each kind that readers tell apart, under a header with a small machine."""

    def script(run):
        run.exits(0, code=1, at=10)
        run.post("workers_stopped", at=5)

    play(script, "fail_fast")
    header, *records = map(json.loads, (node / "journal.jsonl").read_text().splitlines())
    stale = {**LINE, "event": {"name": "slow", "data": {}, "visit": 1}, "outcome": "stale"}
    records += [
        {**records[-1], "outcome": "failed", "state": "HEALTHY", "error": "e"},
        {**LINE, "note": "something optional failed"},
        {**stale, "facts": records[-1]["facts"]},
    ]
    kinds = {r["event"]["name"]: r for r in records if r.get("event", {}).get("name") in TOLD}
    kinds |= {r.get("outcome"): r for r in records}
    numbered = [{**record, "seq": seq} for seq, record in enumerate(kinds.values(), start=1)]
    return [header | {"machine": MACHINE}, *numbered]


def write(node, lines):
    (node / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def places(value, path=()):
    """The way to each value inside a value, and to one more that is not there."""
    if isinstance(value, dict):
        yield (*path, "note")
        yield (*path, "outcome")
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def changed(value, path):
    """The value without what is at the path, and with other things there."""
    *way, last = path
    for other in (GONE, *OTHERS):
        copied = copy.deepcopy(value)
        holder = copied
        for key in way:
            holder = holder[key]
        if other is GONE:
            holder.pop(last, None) if isinstance(holder, dict) else holder.pop(last)
        else:
            holder[last] = other
        yield copied


def test_the_journal_has_every_kind_of_line(lines):
    kinds = {line.get("outcome", "note") for line in lines[1:]}
    assert kinds == {"step", "ignored", "failed", "stale", "note"}


def test_any_field_of_any_line_may_be_gone_or_another(lines, node):
    seen = set()
    for index in range(1, len(lines)):
        for path in places(lines[index]):
            for line in changed(lines[index], path):
                write(node, [*lines[:index], line, *lines[index + 1 :]])
                try_all(node, seen)


def test_any_field_of_the_header_may_be_gone_or_another(lines, node):
    seen = set()
    for path in places(lines[0]):
        for header in changed(lines[0], path):
            write(node, [header, *lines[1:]])
            try_all(node, seen)


def test_it_may_be_cut_at_any_byte(lines, node):
    of_each_outcome = {line.get("outcome"): line for line in lines[1:]}
    lines = [lines[0], *of_each_outcome.values()]
    write(node, lines)
    path = node / "journal.jsonl"
    whole = path.read_bytes()
    seen = set()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        try_all(node, seen)
    assert len(seen) == 2 * len(lines) - 1  # each number of lines, with and without a torn one


@pytest.mark.parametrize(
    "words",
    [["explain"], ["status"], ["replay"], ["graph", "--run"], ["simulate"], ["check", "-c"]],
    ids=" ".join,
)
def test_a_name_that_is_too_long(words, capsys):
    """Of the verbs that start nothing, none says that nothing was started."""
    name = "x" * 300
    last = f"scenario={name}" if words == ["simulate"] else name
    assert run_command_line([*words, last]) == 2
    head, place, *_ = capsys.readouterr().err.splitlines()
    assert head == f"elastic-fsm {words[0]}:"
    assert name in place
    assert "Errno" not in place


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_text_that_no_encoding_has_is_written_out(eventful, node, monkeypatch, tmp_path, errors):
    """Names of files and folders may be any bytes, and rules may raise with any text."""
    journal = node / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"host":"node-0"', '"host":"\\ud800"', 1))
    strict = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors)
    monkeypatch.setattr("sys.stdout", strict)
    page = tmp_path / "page.html"
    for words in (["explain"], ["explain", "--html", str(page)], ["status"], ["replay"]):
        run_command_line([*words, str(node)])
    strict.flush()
    assert b"\\ud800" in strict.buffer.getvalue()
    assert "\\ud800" in page.read_text()

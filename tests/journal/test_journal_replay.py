"""Replay: the journal and its machine agree, a changed line is named, other machines differ."""

from __future__ import annotations

import json
import re

import pytest
from journal_checks import check_played

from elastic_fsm.cli import run_command_line
from elastic_fsm.hindsight.replay import replay
from elastic_fsm.hindsight.replaying import other_machine, own_machine, replay_node
from elastic_fsm.journal_header import settings_named
from elastic_fsm.journal_line import to_line
from elastic_fsm.journal_reader import read_journal
from elastic_fsm.problems import BadInput
from elastic_fsm.testing import Scenario

CHANGED = "was changed after it was written: its checksum does not fit"


def change(node, number, /, **values):
    """Change one line, inside ``event`` and ``facts`` too; returns its number in the file."""
    path = node / "journal.jsonl"
    lines = path.read_text().splitlines()
    record = json.loads(lines[number])
    assert record["seq"] == number
    for name, value in values.items():
        record[name] = record[name] | value if isinstance(value, dict) else value
    lines[number] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")
    return number + 1


def seq_of(run, transition):
    return next(n for n, r in enumerate(run.records, start=1) if r.get("transition") == transition)


def test_a_journal_agrees_with_its_machine(eventful, node, capsys):
    assert run_command_line(["replay", str(node)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("replay starts nothing")
    assert f"{len(eventful.records)} lines, no difference" in out


def test_a_run_that_is_not_there_is_not_replayed(tmp_path, capsys):
    assert run_command_line(["replay", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no run in" in err


@pytest.mark.parametrize(
    ("transition", "values", "field"),
    [
        ("worker_lost", {"dest": "BACKOFF"}, "dest"),
        ("worker_lost", {"transition": "all_done"}, "transition"),
        ("worker_lost", {"actions": []}, "actions"),
        ("worker_lost", {"outcome": "ignored", "state": "HEALTHY"}, "outcome"),
        ("worker_lost", {"worker_state": "HEALTHY"}, "worker_state"),
        ("worker_lost", {"verdicts": []}, "verdicts"),
        ("restart", {"facts": {"restarts_left": 0}}, "transition"),
        ("worker_lost", {"event": {"name": "barrier_passed"}}, "outcome"),
        ("restart", {"event": {"name": "workers_stopped", "attempt": 7}}, "outcome"),
        ("again", {"event": {"name": "backoff_elapsed", "visit": 99}}, "outcome"),
        ("worker_lost", {"seq": 99}, "missing before "),
        ("worker_lost", {"facts": {"unheard_of": 1}}, "not a line of ours: TypeError: "),
        # Nothing that the machine's step depends on:
        ("worker_lost", {"facts": {"now": 1.5}}, CHANGED),
        ("worker_lost", {"time": 17.0}, CHANGED),
    ],
)
def test_a_changed_line_is_named(eventful, node, capsys, transition, values, field):
    number = change(node, seq_of(eventful, transition), **values)
    assert run_command_line(["replay", str(node)]) == 1
    out = capsys.readouterr().out
    first = re.split(r"differences?(?:; the first)?:\n", out)[1]
    assert first.strip().startswith(f"{node / 'journal.jsonl'}:{number} (seq ")
    assert field in first
    assert CHANGED in first, "a checksum says so, whatever was changed"
    assert "check:" not in out


def without_checksum(path, number):
    """Take the checksum out of a line of a file, and change nothing else."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = re.sub(rb',"check":"[0-9a-f]{8}"}', b"}", lines[number - 1])
    path.write_bytes(b"".join(lines))


def test_a_line_that_has_lost_its_checksum_is_named(eventful, node):
    path = node / "journal.jsonl"
    without_checksum(path, 4)
    text, agrees = replay_node(node)
    assert not agrees
    assert "the header" not in text
    assert f"{path}:4 (seq 3): " in text
    assert text.count("was changed after it was written: its checksum is gone") == 1


def test_a_header_that_has_lost_its_checksum_is_named(eventful, node):
    path = node / "journal.jsonl"
    without_checksum(path, 1)
    text, agrees = replay_node(node)
    assert not agrees
    assert f"the header {path}:1\n" in text


def test_a_journal_of_somebody_who_knows_no_checksums_is_as_it_is(eventful, node):
    path = node / "journal.jsonl"
    for number in range(1, len(eventful.records) + 2):
        without_checksum(path, number)
    text, agrees = replay_node(node)
    assert agrees, text


def test_one_difference_in_words(eventful, node):
    change(node, 3, time=17.0)
    text, _ = replay_node(node)
    assert f"{len(eventful.records)} lines, 1 difference:\n" in text


def test_of_many_differences_the_first_are_kept_and_the_others_counted(eventful, node, monkeypatch):
    for number in range(1, len(eventful.records) + 1):
        change(node, number, time=17.0)
    monkeypatch.setattr("elastic_fsm.hindsight.replay.MOST_KEPT", 3)
    journal = read_journal(node)
    outcome = replay(journal, own_machine(journal))
    assert (len(outcome.differences), outcome.differing) == (3, len(eventful.records))
    text, _ = replay_node(node)
    assert f"{outcome.compared} lines, {outcome.differing} differences; the first:\n" in text


def test_another_machine_differs_at_one_line_more_than_is_told(eventful, node, monkeypatch):
    words = [
        "machine.transitions.restart.dest=JOINING",
        "~machine.states.BACKOFF",
        "~machine.transitions.again",
    ]
    journal = read_journal(node)
    differing = replay(journal, other_machine(journal, words), other=True).differing
    monkeypatch.setattr("elastic_fsm.hindsight.replay.MOST_KEPT", differing - 1)
    assert "  … and at 1 more line\n" in replay_node(node, words)[0]


def test_a_changed_header_is_named(node, eventful, capsys):
    path = node / "journal.jsonl"
    path.write_text(path.read_text().replace('"host":"node-0"', '"host":"node-1"', 1))
    assert run_command_line(["replay", str(node)]) == 1
    out = capsys.readouterr().out
    assert f"used, though it was changed after it was written: the header {path}:1\n" in out
    assert "left out" not in out


@pytest.mark.parametrize("verb", [["replay"], ["graph", "--run"]])
def test_a_changed_header_that_is_no_machine_is_named(node, eventful, capsys, verb):
    path = node / "journal.jsonl"
    path.write_text(path.read_text().replace('"doc":"Somebody', '"dok":"Somebody', 1))
    assert run_command_line([*verb, str(node)]) == 2
    err = capsys.readouterr().err
    assert f"{path}:1: the header was changed after it was written\n" in err
    assert f"{path}:1: machine.transitions.told_to_stop.dok: unknown key 'dok'" in err


def test_the_override_that_the_help_names_can_be_used(node, eventful, capsys):
    assert run_command_line(["replay", "--help"]) == 0
    (words,) = re.findall("'(machine[.].*)'", capsys.readouterr().out)
    assert run_command_line(["replay", str(node), words]) in (0, 1)


def test_a_changed_note_is_named(node, eventful, capsys):
    path = node / "journal.jsonl"
    *_, last = read_journal(node).records
    note = to_line(
        {k: last[k] for k in ("seq", "time", "monotonic", "worker_state")} | {"note": "a"}
    )
    path.write_bytes(path.read_bytes() + note.replace(b'"a"', b'"b"'))
    assert run_command_line(["replay", str(node)]) == 1
    out = capsys.readouterr().out
    assert f"(seq {last['seq']}): b\n" in out
    assert CHANGED in out


def test_another_machine_does_not_differ_by_a_changed_line(node, eventful):
    number = change(node, 3, time=17.0)
    text, agrees = replay_node(node, ["restart.delay=20s"])
    assert agrees
    assert "this machine would have gone the same way" in text
    assert f"{node / 'journal.jsonl'}:{number} {CHANGED}" in text


def test_a_line_that_was_taken_out_is_noticed(eventful, node, capsys):
    path = node / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    del lines[5]
    path.write_text("".join(lines))
    assert run_command_line(["replay", str(node)]) == 1
    out = capsys.readouterr().out
    assert out.endswith(f"  missing before {path}:6: 1 line\n")


def test_another_machine_ends_where_this_one_went_on(eventful, node):
    text, agrees = replay_node(node, ["machine=fail_fast"])
    assert not agrees
    line = seq_of(eventful, "restart") + 1
    assert f"the first difference is {node / 'journal.jsonl'}:{line}" in text
    assert "the run:       UNHEALTHY -> BACKOFF [restart]" in text
    assert "this machine:  UNHEALTHY -> FAILED [give_up]" in text
    assert "would have ended then, at" in text
    assert "the run went on for 1h 43m 20s" in text


def test_a_change_that_does_not_matter_is_no_difference(eventful, node):
    text, agrees = replay_node(node, ["restart.delay=20s"])
    assert agrees
    assert "this machine would have gone the same way" in text


def test_a_change_to_the_runs_own_machine(play, node):
    """Not to the shipped one: the run's arrow is called otherwise, and its signal is not ours."""
    extra = {"trigger": "signal_received", "source": ["HEALTHY"], "conditions": ["signal_in(x)"]}
    extra["conditions"] = [{"signal_in": ["SIGUSR2"]}]
    play(
        lambda run: (run.signal("SIGUSR2", at=5), run.exits(0, at=9), run.exits(1, at=9)),
        machine={"transitions": {"noticed": extra}},
    )
    assert replay_node(node, ["restart.delay=20s"])[1]
    text, agrees = replay_node(node, ["machine.transitions.noticed.dest=STOPPING"])
    assert not agrees
    assert "the run:       still HEALTHY [noticed]" in text
    assert "this machine:  HEALTHY -> STOPPING [noticed]" in text
    assert "from there on, as far as the events of the real run can tell:" in text


def test_the_values_of_the_run_are_kept_and_may_be_overridden(play, node):
    play(lambda run: run.signal("SIGUSR1", at=5), stop={"signals": ["SIGUSR1"]})
    assert replay_node(node, ["machine=fail_fast"])[1]
    text, agrees = replay_node(node, ["stop.signals=[SIGTERM]"])
    assert not agrees
    assert "HEALTHY -> STOPPING [told_to_stop]" in text


def test_what_cannot_be_run_cannot_be_replayed(eventful, node):
    with pytest.raises(BadInput, match="no configuration value"):
        replay_node(node, ["machine.states.BACKOFF.timeouts.backoff_elapsed=restart.dely"])


def test_plugins_are_found_where_the_run_found_them(tmp_path, play, node, monkeypatch):
    """In the folder of the file that the header names, whatever the current folder is."""
    folder = tmp_path / "job"
    folder.mkdir()
    source = folder / "my_rules_for_replay.py"
    source.write_text(
        "from elastic_fsm import condition\n"
        "@condition\n"
        "def exit_was(event, facts, code):\n"
        "    return event.data['exit_code'] == code\n"
    )
    monkeypatch.syspath_prepend(folder)
    import my_rules_for_replay

    monkeypatch.delitem(__import__("sys").modules, "my_rules_for_replay")
    tolerated = {"trigger": "worker_exited", "source": ["HEALTHY"], "priority": 5}
    tolerated["conditions"] = [{"exit_was": 75}]
    play(
        lambda run: (run.exits(0, code=75, at=5), run.signal("SIGTERM", at=9)),
        plugins=[my_rules_for_replay],
        machine={"transitions": {"tolerated": tolerated}},
    )
    path = node / "journal.jsonl"
    header, *rest = path.read_text().splitlines(keepends=True)
    named = json.loads(header) | {"plugins": {"my_rules_for_replay": str(source)}}
    del named["check"]
    path.write_text(to_line(named).decode() + "".join(rest))
    monkeypatch.setattr("sys.path", [p for p in __import__("sys").path if p != str(folder)])
    text, agrees = replay_node(node)
    assert agrees, text


@pytest.mark.parametrize("file", ["", "x", "/", None])
def test_a_plugin_from_nowhere_is_looked_for_among_what_is_installed(eventful, node, file):
    path = node / "journal.jsonl"
    header, *rest = path.read_text().splitlines(keepends=True)
    named = json.loads(header) | {"plugins": {"a.rule_of_nobody": file}}
    del named["check"]
    path.write_text(to_line(named).decode() + "".join(rest))
    with pytest.raises(BadInput, match=r"there is no module 'a\.rule_of_nobody'"):
        replay_node(node)


def test_a_damaged_line_is_no_agreement(eventful, node):
    path = node / "journal.jsonl"
    path.write_text(path.read_text() + "{}\n")
    text, agrees = replay_node(node)
    assert not agrees
    assert "no difference" in text
    assert "left out, for it cannot be used: " in text


def test_a_masked_value_stands_for_whatever_it_was(eventful, node):
    """A secret in an action's parameters is hidden in header and lines, and not in a job file."""
    from elastic_fsm.hindsight.replay import _same

    assert _same(["run_command(argv=x-secret-y)"], ["run_command(argv=x-***-y)"])
    assert _same(["run_command(argv=x-***-y)"], ["run_command(argv=x-secret-y)"])
    assert not _same(["run_command(argv=x-secret-z)"], ["run_command(argv=x-***-y)"])
    assert not _same(["run_command(argv=x-***-y)"], ["run_command(argv=x-secret-z)"])


def test_the_check_that_all_scenarios_go_through_can_fail():
    run = Scenario("elastic")
    run.exits(0, code=1, at=5)
    run.play()
    check_played(run, run.rules_of_the_test)
    run.records[4] = run.records[4] | {"dest": "BACKOFF"}
    with pytest.raises(AssertionError, match="BACKOFF"):
        check_played(run, run.rules_of_the_test)


def test_a_job_file_describes_the_other_run(eventful, node, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("defaults:\n  - override machine: fail_fast\n")
    text, agrees = replay_node(node, job_file=job)
    assert not agrees
    assert "this machine:  UNHEALTHY -> FAILED [give_up]" in text


def test_the_header_holds_what_the_machine_names_and_no_secret(tmp_path):
    machine = {"doc": "see docs.example.org", "timeouts": {"x": "stop.grace", "y": "no.such"}}
    values = {"machine": machine, "stop": {"grace": 5, "window": 1}, "spec": {"env": {"T": "s"}}}
    assert settings_named(machine, values) == {"stop": {"grace": 5}}

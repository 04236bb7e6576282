"""Reading a journal back: as it is being written, torn, in several files, or not there at all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from journal_checks import check_lines, check_replay

from elastic_fsm.cli import run_command_line
from elastic_fsm.hindsight.explain import story_of
from elastic_fsm.hindsight.replaying import own_machine, replay_node
from elastic_fsm.journal import Journal
from elastic_fsm.journal_reader import find_run, read_journal
from elastic_fsm.problems import BadInput
from elastic_fsm.testing import Scenario


def many_restarts(play, count=60, **options):
    def script(run):
        for number in range(count):
            run.exits(0, code=3, at=10 * (number + 1))
        run.signal("SIGTERM", at=10 * (count + 1))

    return play(script, max_restarts=count, **options)


@pytest.fixture
def small_files(monkeypatch):
    """Journals that are rotated after ten lines or so."""
    monkeypatch.setitem(Journal.__init__.__kwdefaults__, "max_bytes", 6000)


def test_what_was_written_is_read(eventful, node):
    journal = read_journal(node)
    assert journal.header["run_id"] == "scenario"
    written = json.loads(json.dumps(eventful.records))
    assert [{k: v for k, v in r.items() if k != "seq"} for r in journal.records] == written
    assert not journal.torn
    assert journal.final
    assert journal.summary.transitions["worker_lost"] == 2
    assert journal.summary.restarts == 2
    assert journal.summary.membership_restarts == 1
    assert journal.summary.seconds_in()["HEALTHY"] == pytest.approx(7200 - 3 * 2 - 4 * 3)
    assert journal.where(0) == f"{node / 'journal.jsonl'}:2"


def test_every_kind_of_line_fits_the_schema(play, node, module_with):
    def raises(event, facts):
        raise ValueError("cannot tell")

    def script(run):
        run.exits(0, code=1, at=10)  # the answer to this stop comes when told_to_stop is asked
        run.post("workers_stopped", at=5)
        run.at(11, lambda: run.launcher._post("workers_started", pids=[1]))
        run.signal("SIGTERM", at=20)

    play(
        script,
        max_restarts=1,
        plugins=[module_with(raises)],
        machine={"transitions": {"told_to_stop": {"conditions": ["raises"]}}},
    )
    lines = [json.loads(line) for line in (node / "journal.jsonl").read_text().splitlines()]
    check_lines(lines)
    assert {line.get("outcome") for line in lines} >= {"step", "ignored", "failed"}
    (failed,) = [line for line in lines if line.get("outcome") == "failed"]
    assert failed["state"] == "HEALTHY"
    assert failed["error"].endswith("ValueError: cannot tell")


@pytest.fixture
def module_with():
    from types import ModuleType

    from elastic_fsm.registry import condition

    def make(function):
        module = ModuleType("rules")
        module.rule = condition(function)
        return module

    return make


@pytest.mark.parametrize(
    "change",
    [{"outcome": "stepped"}, {"seq": "1"}, {"facts": {}}, {"more": 1}, {"worker_state": "WELL"}],
)
def test_the_schema_refuses_what_is_no_line_of_ours(eventful, node, change):
    record = read_journal(node).records[3]
    check_lines([record])
    with pytest.raises(AssertionError):
        check_lines([record | change])


def test_a_torn_last_line_is_left_out(eventful, node):
    path = node / "journal.jsonl"
    whole = read_journal(node)
    path.write_bytes(path.read_bytes()[:-20])
    journal = read_journal(node)
    assert journal.torn
    assert journal.records == whole.records[:-1]
    assert not journal.final


def test_it_is_read_while_it_is_written(node):
    seen = []
    run = Scenario("fail_fast", journal=node / "journal.jsonl")
    run.observers.append(lambda record: seen.append(len(read_journal(node).records)))
    run.exits(0, code=1, at=5)
    run.play()
    assert seen == list(range(1, len(run.records) + 1))


def test_a_damaged_line_is_named_and_the_others_are_read(eventful, node):
    path = node / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = b"\x00\x00\n"
    path.write_bytes(b"".join(lines))
    journal = read_journal(node)
    assert journal.damaged == (f"{path}:5: it is no JSON object",)
    assert len(journal.records) == len(eventful.records) - 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"seq": None}, "seq is not a whole number"),
        ({"time": float("inf")}, "time is not a number of a sensible size"),
        ({"worker_state": "WELL"}, "worker_state is not a worker state"),
        ({"outcome": "postponed"}, "outcome 'postponed' is not known here"),
        ({"facts": {"now": 1}}, "facts.entered_at is missing"),
        ({"event": {"name": "worker_exited", "data": {}}}, "event.data.local_rank is missing"),
        ({"verdicts": [["restart", "x", 1]]}, "verdicts[0][2] is not true or false"),
        ({"verdicts": [["restart"]]}, "verdicts[0] has not 3 values"),
        ({"note": "and more"}, "it is a note and an event"),
    ],
)
def test_a_line_that_is_none_of_ours_is_named_with_what_is_wrong(eventful, node, change, fault):
    path = node / "journal.jsonl"
    lines = path.read_text().splitlines()
    lines[4] = json.dumps(json.loads(lines[4]) | change)
    path.write_text("\n".join(lines) + "\n")
    journal = read_journal(node)
    (damaged,) = journal.damaged
    assert damaged.startswith(f"{path}:5: {fault}")
    assert journal.remarks() == [f"left out, for it cannot be used: {damaged}"]


def test_of_many_damaged_lines_some_are_named(eventful, node):
    path = node / "journal.jsonl"
    header, *lines = path.read_text().splitlines(keepends=True)
    path.write_text(header + "{}\n" * 9 + "".join(lines))
    (remark,) = read_journal(node).remarks()
    assert remark.count("journal.jsonl:") == 3
    assert remark.endswith("; and 6 more lines")


@pytest.mark.parametrize(
    ("kept", "remark"),
    [
        ("01234678", "missing before {path}:7: 1 line"),
        ("01278", "missing before {path}:5: 4 lines"),
        ("012343456", "doubled, or in another order: {path}:7"),
        ("0123x5678", "left out, for it cannot be used: {path}:6: it is no JSON object"),
        ("01234x5678", "left out, for it cannot be used: {path}:7: it is no JSON object"),
        ("0123x678", "missing before {path}:7: 1 line"),
    ],
)
def test_lines_that_are_not_one_after_the_other_are_named(eventful, node, kept, remark):
    path = node / "journal.jsonl"
    header, *lines = path.read_text().splitlines(keepends=True)
    path.write_text(header + "".join("?\n" if n == "x" else lines[int(n)] for n in kept))
    journal = read_journal(node)
    assert journal.remarks()[0] == remark.format(path=path)
    assert not journal.is_as_written


@pytest.mark.parametrize(
    ("first", "fault"),
    [
        ("", "it is not that of a journal"),
        ('{"seq":1}', "it is not that of a journal"),
        ('{"format":1,"machine":{}}', "run_id is missing"),
    ],
)
def test_a_journal_without_its_header_is_refused(eventful, node, first, fault):
    path = node / "journal.jsonl"
    path.write_text(first + "\n" + "".join(path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(BadInput) as caught:
        read_journal(node)
    (problem,) = caught.value.problems
    assert problem.what == f"the first line is not a header: {fault}"
    assert problem.where == str(path)


# -- several files -----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_files")
def test_a_long_journal_keeps_its_beginning_its_end_and_all_sums(play, node):
    run = many_restarts(play)
    names = sorted(path.name for path in node.iterdir())
    assert len(names) == 6
    assert {"journal-0.jsonl", "journal.jsonl"} < set(names)
    assert sum(path.stat().st_size for path in node.iterdir()) < 6 * 20_000
    journal = read_journal(node)
    steps = [r for r in run.records if r["outcome"] == "step"]
    assert sum(journal.summary.transitions.values()) == len(steps)
    assert journal.summary.transitions["restart"] == 60
    assert journal.summary.seq == len(run.records)
    assert journal.summary.visits == sum(r["entered"] for r in steps)
    assert sum(journal.summary.seconds_in().values()) == pytest.approx(run.loop.clock.now())
    (gap,) = journal.gaps
    assert not gap.lost
    assert journal.is_as_written
    assert gap.missing == len(run.records) - len(journal.records) > 0
    assert journal.records[gap.index]["seq"] == journal.records[gap.index - 1]["seq"] + (
        gap.missing + 1
    )
    assert journal.records[gap.index].get("source", gap.before.state) == gap.before.state


@pytest.mark.usefixtures("small_files")
def test_a_journal_with_dropped_files_is_replayed_around_the_gap(play, node):
    many_restarts(play)
    journal = read_journal(node)
    check_replay(journal, own_machine(journal))
    for path in node.iterdir():
        check_lines(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.usefixtures("small_files")
def test_a_journal_of_which_nothing_was_dropped_is_as_if_it_were_one_file(play, node):
    run = many_restarts(play, count=4)
    journal = read_journal(node)
    assert len(list(node.iterdir())) > 2
    assert journal.gaps == ()
    assert [r["seq"] for r in journal.records] == list(range(1, len(run.records) + 1))
    check_replay(journal, own_machine(journal))


def without_last_line(path):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def without_first_line(path):
    header, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(header + "".join(rest))


def torn(path):
    path.write_text(path.read_text()[:-30])


def without_checksums(path):
    path.write_text(re.sub(r',"check":"[0-9a-f]{8}"}\n', "}\n", path.read_text()))


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(
    ("change", "number", "told"),
    [
        (without_last_line, 3, "missing before {after}: 1 line\n"),
        (without_first_line, 3, "missing before {path}:2: 1 line\n"),
        (torn, 3, "{path}: the last line was not written to its end"),
        (torn, 0, "{path}: the last line was not written to its end"),
        (Path.unlink, 3, "missing before {after}: "),
        (Path.unlink, 0, "missing before {after}: "),
        (lambda path: path.write_text(""), 3, "missing before {after}: "),
        (without_checksums, 3, "the header {path}:1\n"),
    ],
)
def test_what_one_of_many_files_has_lost_is_named(play, node, change, number, told):
    many_restarts(play)
    files = sorted(node.glob("journal-*.jsonl"), key=lambda file: int(file.stem[8:]))
    path, after = files[number], files[number + 1]
    change(path)
    text, agrees = replay_node(node)
    assert not agrees
    assert told.format(path=path, after=after) in text
    gaps = len([chapter for chapter in story_of(node).chapters if " missing here" in chapter.title])
    assert gaps == (f"missing before {after}: " in text)
    assert "(seq " not in text, "told once"


@pytest.mark.usefixtures("small_files")
def test_a_file_that_is_there_twice_is_named(play, node):
    many_restarts(play)
    *_, path, doubled = sorted(node.glob("journal-*"), key=lambda file: int(file.stem[8:]))
    doubled.write_bytes(path.read_bytes())
    journal = read_journal(node)
    assert f"doubled, or in another order: the lines of {doubled}" in journal.remarks()
    assert not journal.is_as_written


@pytest.mark.usefixtures("small_files")
def test_an_agent_that_dies_between_two_files_leaves_a_readable_journal(play, node):
    many_restarts(play, count=4)
    (node / "journal.jsonl").unlink()
    journal = read_journal(node)
    assert journal.records
    assert find_run(node) == [node]


@pytest.mark.usefixtures("small_files")
def test_any_of_the_files_stands_for_all(play, node):
    many_restarts(play, count=4)
    assert read_journal(node / "journal-0.jsonl").records == read_journal(node).records


def test_a_disk_that_is_full_at_the_change_of_files_warns_once(tmp_path):
    warnings = []
    journal = Journal(tmp_path / "journal.jsonl", warnings.append, max_bytes=100)
    journal.header({"machine": {}})
    (tmp_path / "journal-0.jsonl").mkdir()  # cannot be renamed onto
    for _ in range(20):
        journal.write({"note": "something that is long enough"})
    assert len(warnings) == 1
    assert "the run goes on" in warnings[0]


# -- finding it --------------------------------------------------------------------------------


def test_a_run_is_found_by_any_of_its_folders(eventful, node, monkeypatch):
    runs = node.parent.parent
    (runs / "latest").symlink_to("run")
    monkeypatch.chdir(runs.parent)
    for path in (None, runs, runs / "latest", node.parent, node, node / "journal.jsonl"):
        assert find_run(path) == [node]


def test_an_earlier_run_of_the_same_id_is_found_by_its_file(eventful, node):
    earlier = (node / "journal.jsonl").rename(node / "journal.0.jsonl")
    assert find_run(earlier) == [earlier]
    assert read_journal(earlier).final


def test_all_nodes_of_a_run_are_found(eventful, node):
    other = node.with_name("node-1")
    other.mkdir()
    (other / "journal.jsonl").write_bytes((node / "journal.jsonl").read_bytes())
    assert find_run(node.parent) == [node, other]


def test_no_run_is_said_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"there is no run in elastic_runs\n.*elastic_runs/latest"):
        find_run()
    with pytest.raises(BadInput, match="there is no journal"):
        read_journal(tmp_path)


@pytest.mark.parametrize("verb", [["explain"], ["replay"], ["graph", "--run"]])
@pytest.mark.parametrize("text", ["", '{"format":1,"run'])
def test_a_journal_without_a_header_is_there(node, verb, text, capsys):
    (node / "journal.jsonl").write_text(text)
    assert run_command_line([*verb, str(node)]) == 2
    said = "the journal has no header: its agent died in its first moment"
    assert f"{node / 'journal.jsonl'}: {said}" in capsys.readouterr().err


def test_a_journal_of_a_later_format_is_refused(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"format":2,"elastic_fsm":"9.0","machine":{}}\n')
    with pytest.raises(BadInput, match=r"format 2, not 1\n.*elastic_fsm 9\.0"):
        read_journal(path)

"""Status: runs in progress, ended, and those whose agent died; and it is quick."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.hindsight.explain import story_of
from elastic_fsm.hindsight.liveness import agent_is_alive
from elastic_fsm.hindsight.status import render, status_of
from elastic_fsm.lockfile import lock
from elastic_fsm.problems import BadInput
from elastic_fsm.registry import action
from elastic_fsm.testing import NothingCanHappen, Scenario


@pytest.fixture
def under_way(node):
    """A journal of a run that came to HEALTHY, after one failure, and nothing after that."""
    run = Scenario("elastic", max_restarts=2, journal=node / "journal.jsonl")
    run.exits(1, code=1, at=10)
    with pytest.raises(NothingCanHappen):
        run.play()
    (node / "agent.pid").write_text("4711\n")
    return node


@pytest.fixture
def locked(under_way):
    """The same, with a living agent: that is, with somebody who holds the lock."""
    descriptor = os.open(under_way / "agent.pid", os.O_RDWR)
    lock(descriptor)
    yield under_way
    os.close(descriptor)


def test_a_run_in_progress(locked):
    (status,) = status_of(locked)
    assert (status.condition, status.state, status.worker_state) == (
        "running",
        "HEALTHY",
        "HEALTHY",
    )
    assert (status.workers_alive, status.workers) == (2, 2)
    assert (status.restarts_used, status.max_restarts) == (1, 2)
    assert status.pid == 4711
    assert status.since == 1_700_000_010
    text = render([status], now=1_700_000_070)
    assert "HEALTHY" in text
    assert "(1m 0s ago)" in text
    assert "2/2" in text
    assert "1/2" in text
    assert "4711" in text


def test_a_healthy_run_is_told_up_to_now(locked, monkeypatch, capsys):
    monkeypatch.setattr("time.time", lambda: 1_700_000_010 + 86400)
    story = story_of(locked)
    assert story.ending.time == 1_700_000_010
    assert {s.state: round(s.seconds) for s in story.states}["HEALTHY"] == 86410
    assert round(story.seconds) == 86410
    assert run_command_line(["graph", "--run", str(locked)]) == 0
    assert "HEALTHY 24:00:10 h" in capsys.readouterr().out


def test_an_agent_that_died(under_way):
    (status,) = status_of(under_way)
    assert (status.condition, status.state) == ("agent died", "HEALTHY")
    assert status.workers_alive is None
    assert "agent died in HEALTHY" in render([status])


def test_looking_does_not_take_the_lock_away(locked):
    assert agent_is_alive(locked) is True
    assert agent_is_alive(locked) is True


def test_looking_takes_no_lock_not_even_for_a_moment(under_way, monkeypatch):
    """An agent that starts in that moment would be refused."""
    asked = []
    ask = fcntl.fcntl

    def asking(descriptor, command, argument):
        asked.append(command)
        return ask(descriptor, command, argument)

    def never(*_):
        raise AssertionError("a lock was taken")

    monkeypatch.setattr("fcntl.fcntl", asking)
    monkeypatch.setattr("fcntl.flock", never)
    assert agent_is_alive(under_way) is False
    assert asked == [fcntl.F_OFD_GETLK]


def test_a_file_system_without_locks(under_way, monkeypatch):
    def no_locks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.fcntl", no_locks)
    (status,) = status_of(under_way)
    assert status.condition == "unclear"
    assert "HEALTHY, or agent died" in render([status])


def test_a_run_that_ended(eventful, node):
    (status,) = status_of(node)
    assert (status.condition, status.state) == ("ended", "STOPPED")
    assert status.workers_alive == 0
    assert status.restarts_used == 2
    assert status.membership_restarts == 1


def test_a_restart_counts_with_the_line_that_spends_it(eventful, node):
    path = node / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for number, following in enumerate(eventful.records[1:], start=1):
        path.write_text("".join(lines[: number + 1]))
        facts, story, (status,) = following["facts"], story_of(node), status_of(node)
        counted = (facts["max_restarts"] - facts["restarts_left"], facts["membership_restarts"])
        assert (status.restarts_used, status.membership_restarts) == counted
        assert (story.restarts_used, story.membership_restarts) == counted
        assert sum(chapter.restarts_used for chapter in story.chapters) == counted[0]
        assert sum(chapter.membership_restarts for chapter in story.chapters) == counted[1]


def test_a_restart_that_was_not_spent_after_all_does_not_count(play, node):
    """The facts of a later line are the truth."""

    def broken(agent, event):
        raise RuntimeError

    rules = ModuleType("rules")
    rules.broken = action(broken)
    again = {"before": ["broken", "spend_restart"]}
    play(
        lambda run: run.exits(0, code=1, at=5),
        max_restarts=1,
        plugins=[rules],
        machine={"transitions": {"again": again}},
    )
    story, (status,) = story_of(node), status_of(node)
    assert (status.restarts_used, story.restarts_used) == (0, 0)
    assert [chapter.restarts_used for chapter in story.chapters] == [0] * len(story.chapters)


def test_a_run_that_ended_outside_of_its_machine(under_way):
    (under_way / "report.json").write_text("{}")
    (status,) = status_of(under_way)
    assert "UNKNOWN, lost control in HEALTHY" in render([status])


def test_a_run_whose_journal_ends_before_it_did(under_way):
    report = {"state": "SUCCEEDED", "final_state": "SUCCEEDED", "restarts_used": 2}
    (under_way / "report.json").write_text(json.dumps(report))
    (status,) = status_of(under_way)
    assert (status.condition, status.state, status.since) == ("ended", "SUCCEEDED", None)
    assert (status.workers_alive, status.restarts_used) == (0, 2)
    assert status.problem == "the journal ends before the run did, in HEALTHY"
    report = {"state": "UNKNOWN", "final_state": "UNKNOWN"}  # it did not get that far
    (under_way / "report.json").write_text(json.dumps(report))
    assert "UNKNOWN, lost control in HEALTHY" in render(status_of(under_way))


def test_all_runs_of_a_folder_the_newest_last(under_way, monkeypatch, capsys):
    runs = under_way.parent.parent
    (runs / "latest").symlink_to("run")
    (runs / "no run").mkdir()
    later = runs / "later" / "node-0"
    later.mkdir(parents=True)
    text = (under_way / "journal.jsonl").read_text()
    (later / "journal.jsonl").write_text(text.replace('"time":17', '"time":18'))
    monkeypatch.chdir(runs.parent)
    assert run_command_line(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [status["path"] for status in found] == [
        "elastic_runs/run/node-0".replace("elastic_runs", str(runs)),
        str(later),
    ]


def test_a_run_in_its_first_moment_and_one_with_a_torn_line(node, capsys):
    (node / "journal.jsonl").write_text("")
    assert run_command_line(["status", str(node.parent)]) == 0
    assert "agent died in its first moment" in capsys.readouterr().out


def test_a_torn_line_is_passed_over(under_way):
    path = under_way / "journal.jsonl"
    path.write_bytes(path.read_bytes() + b'{"seq":99,"outcome":"step","dest":"FAI')
    (status,) = status_of(under_way)
    assert status.state == "HEALTHY"


@pytest.mark.parametrize(
    ("journal", "said"),
    [
        ("no header\n", "the first line is not a header: it is not that of a journal"),
        ('{"format":1,"machine":[]}\n', "the first line is not a header: run_id is missing"),
        ('{"format":2,"elastic_fsm":"9.0"}\n', "the journal has format 2, not 1"),
    ],
)
def test_a_bad_run_is_one_line_among_others(under_way, journal, said, capsys):
    runs = under_way.parent.parent
    bad = runs / "bad" / "node-0"
    bad.mkdir(parents=True)
    (bad / "journal.jsonl").write_text(journal)
    assert run_command_line(["status", str(runs)]) == 0
    _, *rows, problem = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["bad", "scenario"]
    assert "unreadable" in rows[0]
    assert "agent died in HEALTHY" in rows[1]
    assert problem == f"bad node-0: {bad / 'journal.jsonl'}: {said}"


@pytest.fixture
def closed(monkeypatch):
    """Folders that this user may not enter; the system lets root do that."""
    folders = set()

    def guarded(real, *, itself):
        def call(path, *args, **options):
            above = {Path(path), *Path(path).parents} if isinstance(path, str | Path) else set()
            if folders & (above if itself else above - {Path(path)}):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *args, **options)

        return call

    access = os.access
    monkeypatch.setattr("os.access", lambda p, *args: p not in folders and access(p, *args))
    monkeypatch.setattr("os.stat", guarded(os.stat, itself=False))
    monkeypatch.setattr(Path, "open", guarded(Path.open, itself=False))
    monkeypatch.setattr(Path, "iterdir", guarded(Path.iterdir, itself=True))
    return folders


def test_a_run_that_may_not_be_looked_into_hides_no_other(under_way, closed, capsys):
    runs = under_way.parent.parent
    private = runs / "private"
    (private / "node-0").mkdir(parents=True)
    closed.add(private)
    assert run_command_line(["status", str(runs)]) == 0
    _, *rows, problem = capsys.readouterr().out.splitlines()
    assert [row.split()[:3] for row in rows] == [
        ["private", "-", "unreadable"],
        ["scenario", "node-0", "agent"],
    ]
    assert problem == f"private -: {private}: Permission denied"


@pytest.mark.parametrize("place", ["runs", "run"])
def test_a_node_that_may_not_be_looked_into_is_told(under_way, closed, place):
    run = under_way.parent
    private = run / "node-1"
    private.mkdir()
    closed.add(private)
    one, other = status_of(run if place == "run" else run.parent)
    assert (one.run_id, one.node, one.condition) == ("run", "node-1", "unreadable")
    assert one.problem == f"{private / 'journal-0.jsonl'}: Permission denied"
    assert (other.node, other.condition) == ("node-0", "agent died")


def test_a_last_line_that_cannot_be_used_is_said(under_way):
    path = under_way / "journal.jsonl"
    path.write_text(path.read_text() + '{"seq":99,"outcome":"step","dest":"FAILED"}\n')
    (status,) = status_of(under_way)
    assert status.state == "HEALTHY"
    assert status.problem == "the last line cannot be used: time is missing"


def test_the_whole_is_read_when_the_end_says_nothing(under_way, monkeypatch):
    monkeypatch.setattr("elastic_fsm.hindsight.status._TAIL", 1000)
    path = under_way / "journal.jsonl"
    path.write_text(path.read_text() + "x" * 2000 + "\n")
    (status,) = status_of(under_way)
    assert (status.state, status.workers) == ("HEALTHY", 2)
    assert status.problem == "the last line cannot be used: it is no JSON object"


def test_no_runs_is_said(tmp_path):
    with pytest.raises(BadInput, match="there is no run in"):
        status_of(tmp_path)


@pytest.mark.slow
def test_it_loads_nothing_slow(under_way):
    code = (
        "import sys\n"
        "from elastic_fsm.cli import run_command_line\n"
        f"run_command_line(['status', {str(under_way)!r}])\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.splitlines()[-1].split())
    assert "elastic_fsm.hindsight.status" in loaded
    assert not loaded & {"hydra", "omegaconf", "transitions", "yaml", "psutil", "torch"}

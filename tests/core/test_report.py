"""What people read: a line for each change of state, and the report at the end."""

from __future__ import annotations

import json

import pytest

from elastic_fsm.events import CATALOGUE, Event
from elastic_fsm.failures import ProcessFailure
from elastic_fsm.history import FailedCommands
from elastic_fsm.narration import because, state_change
from elastic_fsm.report import make_report, render
from elastic_fsm.testing import Scenario

# -- one line for each change ------------------------------------------------------------------

FACTS = {"restarts_left": 2}
WORLD = {"round": 3, "nodes": [{}], "master_addr": "10.0.0.1", "master_port": 29500}
EXIT = {"local_rank": 3, "pid": 42, "exit_code": -9, "reason": ""}
CLAUSES = [
    ("run_requested", {}, "the run begins"),
    ("rendezvous_completed", {"world": WORLD}, "round 3: 1 node, workers meet at 10.0.0.1:29500"),
    ("rendezvous_completed", {"world": {**WORLD, "nodes": [{}, {}]}},
     "round 3: 2 nodes, workers meet at 10.0.0.1:29500"),
    ("rendezvous_failed", {"reason": "closed"}, "no rendezvous: closed"),
    ("spare_assigned", {}, "there are enough nodes without this one"),
    ("run_finished", {}, "the other nodes finished the run"),
    ("membership_changed", {"reason": "n1 left"}, "nodes changed: n1 left"),
    ("membership_changed", {}, "nodes changed: "),
    ("workers_started", {"pids": [1, 2]}, "2 workers started"),
    ("worker_exited", EXIT, "local rank 3 (pid 42) was ended by SIGKILL (-9)"),
    ("worker_exited", {**EXIT, "exit_code": 127, "reason": "cannot be started: no such file"},
     "local rank 3 (pid 42) exited with 127: cannot be started: no such file"),
    ("worker_exited", {**EXIT, "pid": None, "exit_code": 127, "reason": "cannot be started: no"},
     "local rank 3 exited with 127: cannot be started: no"),
    ("workers_stopped", {}, "all workers are down; restarts left: 2"),
    ("workers_stopped", {"caught": ["SIGTERM"]}, "all workers are down; restarts left: 2"),
    ("workers_stopped", {"caught": None},
     "all workers are down; whether one caught a signal cannot be told; restarts left: 2"),
    ("workers_stuck", {"pids": [42]}, "SIGKILL did not end [42]"),
    ("barrier_passed", {}, "all nodes are done"),
    ("signal_received", {"signal": "SIGTERM"}, "SIGTERM was received"),
    ("command_finished", {"name": "tell", "exit_code": 0, "reason": ""},
     "the command tell finished"),
    ("command_failed", {"name": "tell", "exit_code": 3, "reason": ""},
     "the command tell exited with 3"),
    ("command_failed", {"name": "tell", "exit_code": -9, "reason": "took longer than 10 s"},
     "the command tell took longer than 10 s"),
    ("timer_expired", {"local_rank": 1, "pid": 7, "scope": "step", "after": 60, "signal": ""},
     "local rank 1 (pid 7): the timer 'step' expired after 60 s"),
    ("action_failed", {"name": "x", "error": "E: e"}, "the agent's x failed: E: e"),
    ("doubt_elapsed", {"after": 0.1}, "doubt_elapsed after 0.1 s"),
    ("backoff_elapsed", {"after": 0.0}, "backoff_elapsed"),
    ("of_a_plugin", {}, "of_a_plugin"),
    ("of_a_plugin", {"after": "lunch"}, "of_a_plugin"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "clause"), CLAUSES, ids=[f"{c[0]}" for c in CLAUSES])
def test_every_event_in_words(name, data, clause):
    assert because({"event": {"name": name, "data": data}, "facts": FACTS}) == clause


def test_every_event_of_the_agent_has_words():
    assert set(CATALOGUE) <= {name for name, _, _ in CLAUSES}


def test_only_changes_of_state_and_notes_are_told():
    run = Scenario("elastic", max_restarts=1)
    run.exits(0, code=3, at=10)
    run.exits(1, at=20)
    run.signal("SIGUSR1", at=25)
    run.exits(0, at=30)
    run.play()
    told = [line for line in map(state_change, run.records) if line is not None]
    assert told == [
        "INIT -> JOINING [begin] the run begins",
        "JOINING -> STARTING [joined] round 0: 1 node, workers meet at 127.0.0.1:29500",
        "STARTING -> HEALTHY [started] 2 workers started",
        "HEALTHY -> UNHEALTHY [worker_lost] local rank 0 (pid 1001) exited with 3",
        "UNHEALTHY -> BACKOFF [restart] all workers are down; restarts left: 1",
        "BACKOFF -> JOINING [again] backoff_elapsed",
        "JOINING -> STARTING [joined] round 1: 1 node, workers meet at 127.0.0.1:29501",
        "STARTING -> HEALTHY [started] 2 workers started",
        "HEALTHY -> SETTLING [all_done] local rank 0 (pid 1003) exited with 0",
        "SETTLING -> SUCCEEDED [settled] all nodes are done",
    ]
    assert state_change({"note": "said"}) == "said"


def test_what_others_wrote_cannot_control_the_terminal():
    event = {"name": "action_failed", "data": {"name": "x", "error": "\x1b[2J\a"}}
    step = {"outcome": "step", "entered": True, "source": "A", "dest": "B", "transition": "t"}
    line = state_change({**step, "event": event, "facts": FACTS})
    assert line == r"A -> B [t] the agent's x failed: \x1b[2J\x07"
    assert state_change({"note": "a\rb"}) == r"a\x0db"


# -- the report --------------------------------------------------------------------------------


def report_of(run, why="[x] y", failed_commands=None):
    result = run.play()
    return make_report(
        run.agent,
        result,
        run_id="r1",
        host="h1",
        why=why,
        failed_commands=failed_commands.to_list() if failed_commands else [],
    )


def test_the_report_tells_cause_and_consequence_apart():
    run = Scenario("elastic", workers=3)
    run.exits(2, at=5)
    run.exits(1, code=3, at=10)
    values = json.loads(json.dumps(report_of(run)))
    attempt = values["attempts"][0]
    assert [cause["rank"] for cause in attempt["causes"]] == [1]
    assert [(c["rank"], c["signal"]) for c in attempt["consequences"]] == [(0, "SIGTERM")]
    assert attempt["succeeded"] == [2]
    assert (attempt["started"], attempt["ended"]) == (1_700_000_000.0, 1_700_000_010.0)
    assert (values["state"], values["final_state"], values["exit_code"]) == ("FAILED", "FAILED", 3)
    assert values["attempts"][0]["causes"][0]["exit_code"] == 3


DRAINING = {
    "states": {"DRAINING": {"ignores": ["membership_changed"]}},
    "transitions": {
        "drain": {
            "trigger": "signal_received",
            "source": ["HEALTHY"],
            "dest": "DRAINING",
            "conditions": [{"signal_in": ["SIGUSR1"]}],
        },
        "drained": {
            "trigger": "worker_exited",
            "source": ["DRAINING"],
            "dest": "SETTLING",
            "conditions": ["all_succeeded"],
        },
        "draining": {"trigger": "worker_exited", "source": ["DRAINING"]},
    },
}


@pytest.mark.parametrize(("name", "told"), [("SIGUSR1", ""), ("SIGTERM", "SIGTERM")])
def test_only_a_signal_that_ended_the_run_is_its_signal(name, told):
    run = Scenario("elastic", machine=DRAINING)
    run.signal(name, at=5)
    run.exits(0, at=10)
    run.exits(1, at=10)
    assert report_of(run)["signal"] == told


def test_attempts_are_told_with_the_restarts():
    run = Scenario("elastic", max_restarts=1)
    run.exits(1, code=3, at=10)
    run.exits(1, at=20)
    run.exits(0, at=20)
    values = report_of(run)
    assert (values["restarts_used"], values["max_restarts"]) == (1, 1)
    assert [len(attempt["causes"]) for attempt in values["attempts"]] == [1, 0]
    times = [(attempt["started"], attempt["ended"]) for attempt in values["attempts"]]
    assert times == [(1_700_000_000.0, 1_700_000_010.0), (1_700_000_010.0, 1_700_000_020.0)]
    text = render(values)
    assert "cause" not in text
    assert "SUCCEEDED: run r1, exit code 0, 2 attempts, 1 of 1 restarts used" in text
    assert "\n  attempt 0: rank 1 exited with 3\n" in text


def test_a_command_that_fails_again_and_again_is_listed_once():
    failed = FailedCommands()
    run = Scenario("elastic")
    run.observers.append(failed)
    for at, code in ((1, 3), (2, 0), (7, 4)):
        data = {"name": "tell", "exit_code": code, "reason": "", "last_line": f"no {code}"}
        event = Event("command_failed" if code else "command_finished", data)
        run.at(at, run.loop.post, event)
    run.exits(0, at=9)
    run.exits(1, at=9)
    report = report_of(run, failed_commands=failed)
    assert report["failed_commands"] == [
        {
            "name": "tell",
            "exit_code": 4,
            "reason": "",
            "last_line": "no 4",
            "time": 1_700_000_007.0,
            "times": 2,
        }
    ]


def test_a_stop_names_its_signal_and_earlier_attempts_their_ends():
    run = Scenario("elastic", max_restarts=1)
    run.post("membership_changed", at=10)
    run.launcher.cannot_start[0] = "cannot be started: no"
    run.signal("SIGTERM", at=30)
    text = render(report_of(run))
    assert text.splitlines()[1:7] == [
        "STOPPED: run r1, exit code 143, 3 attempts, 1 of 1 restarts used",
        "  told to stop by SIGTERM",
        "",
        "  stopped by the agent: ranks 0-1",
        "",
        "  attempt 0: rank 0 exited with 127: cannot be started: no",
    ]
    assert text.splitlines()[7] == "  attempt 1: re-formed"


@pytest.fixture
def crash():
    """Five workers: one with an error file, two that say the same, one killed, one stopped."""
    run = Scenario("elastic", workers=5)
    run.exits(1, code=1, at=10)
    for rank in (0, 3):
        run.exits(rank, code=7, at=10)
    run.exits(4, code=-9, at=10)
    original = run.agent._failure

    def failure(attempt, ended):
        found = original(attempt, ended)
        if ended.local_rank == 1:
            text = "Traceback (most recent call last):\n  File x\nValueError: bad"
            extra = {"py_callstack": text}
            data = {"message": {"message": "ValueError: bad", "extraInfo": extra}}
            found = ProcessFailure(1, found.pid, 1, timestamp=found.timestamp, error_file_data=data)
        found.stderr_tail = {7: ["loading", "no data"]}.get(ended.exit_code, [])
        return found

    run.agent._failure = failure
    return run


GOLDEN = """\
==============================================================================
FAILED: run r1, exit code 1, 1 attempt, 0 of 0 restarts used

  cause: rank 1 (local rank 1) on h1, pid 1002, exited with 1
    ValueError: bad
    its traceback:
    | Traceback (most recent call last):
    |   File x
    | ValueError: bad

  cause: 2 ranks, 0, 3, on h1 (first: rank 0, pid 1001), each exited with 7
    its last lines of stderr:
    | loading
    | no data

  cause: rank 4 (local rank 4) on h1, pid 1005, was ended by SIGKILL (-9)

  stopped by the agent: rank 2

  try again

  report   /r/report.json
  journal  /r/journal.jsonl
=============================================================================="""


def test_the_report_as_text(crash):
    report = report_of(crash)
    places = [("report", "/r/report.json"), ("journal", "/r/journal.jsonl")]
    assert render(report, places=places, hint="try again") == GOLDEN


def test_the_report_shows_control_characters_and_does_not_send_them(crash):
    values = report_of(crash)
    (by_file, first, *_) = values["attempts"][0]["causes"]
    by_file["message"] = "\x1b]0;title\a"
    first["stderr_tail"] = ["\x1b[31mred\x1b[0m", "back\b"]
    text = render(values)
    for part in (r"\x1b]0;title\x07", r"| \x1b[31mred\x1b[0m", r"| back\x08"):
        assert part in text
    assert not {"\x1b", "\a", "\b"} & set(text)


def test_a_worker_that_was_never_started_has_no_pid():
    run = Scenario("elastic")
    run.launcher.cannot_start[1] = "cannot be started: no"
    report = report_of(run)
    (cause,) = report["attempts"][0]["causes"]
    assert cause["pid"] is None
    text = render(report)
    assert "  cause: rank 1 (local rank 1) on h1, exited with 127\n" in text
    assert "pid" not in text
    told = [line for line in map(state_change, run.records) if line and "worker_lost" in line]
    assert told == [
        "STARTING -> UNHEALTHY [worker_lost] local rank 1 exited with 127: cannot be started: no"
    ]


def test_many_different_causes_and_attempts_fit_on_a_screen():
    run = Scenario("elastic", workers=64, max_restarts=40)
    for second in range(40):
        run.exits(0, code=1, at=10 + second)
    for rank in range(64):
        run.exits(rank, code=rank + 1, at=100)
    report = report_of(run)
    lines = render(report).splitlines()
    assert len(lines) < 40
    assert next(line for line in lines if "cause" in line).endswith("exited with 1")
    assert "  failed otherwise: ranks 4-63; how is in the report file" in lines
    first = lines.index("  30 attempts before these: in the report file")
    assert lines[first + 1] == "  attempt 30: rank 0 exited with 1"
    assert len(report["attempts"][-1]["causes"]) == 64


def test_many_consequences_in_one_line():
    run = Scenario("elastic", workers=8)
    run.exits(4, code=1, at=10)
    assert "  stopped by the agent: ranks 0-3, 5-7\n" in render(report_of(run))


def test_the_agents_own_error_is_told():
    run = Scenario("elastic")
    run.agent.launcher.start = lambda plan: 1 / 0
    report = report_of(run)
    assert (
        "  the agent's own code failed: start_workers: ZeroDivisionError: division by zero (test_r"
        in render(report)
    )
    assert "UNKNOWN: run r1, exit code 70, 1 attempt," in render(report)


def test_a_run_without_an_attempt():
    run = Scenario("elastic")
    run.rendezvous.answering = False
    text = render(report_of(run, why="[no_quorum] too late"))
    assert "FAILED: run r1, exit code 1, 0 attempts, 0 of 0 restarts used\n  [no_quorum]" in text

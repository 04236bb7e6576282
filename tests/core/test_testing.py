"""The fakes of ``elastic_fsm.testing`` keep the contracts of what they stand for."""

from __future__ import annotations

import re

import pytest

from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
from elastic_fsm.loop import Loop
from elastic_fsm.testing import (
    ManualClock,
    NothingCanHappen,
    OnStop,
    Scenario,
    ScriptedLauncher,
    ScriptedRendezvous,
    settings_for,
)
from elastic_fsm.world import Node


@pytest.fixture
def loop():
    made = Loop(ManualClock())
    yield made
    made.close()


@pytest.fixture
def launcher(loop):
    return ScriptedLauncher(loop)


def plan(attempt=0, workers=2):
    return LaunchPlan(attempt, tuple(WorkerPlan(rank, rank, ("x",)) for rank in range(workers)))


def rest(loop):
    """All that still happens: ``time name …`` with what matters of the data."""
    told = []
    while True:
        try:
            event = loop.next_event()
        except NothingCanHappen:
            return told
        data = {k: v for k, v in event.data.items() if k not in ("pid", "reason")}
        stopped = data.pop("stopped_by_agent", None)
        mark = "*" if stopped else ""
        told.append(
            " ".join([f"{loop.clock.now():g}", event.name, *(f"{v}" for v in data.values())]) + mark
        )


def test_workers_run_until_the_script_says(loop, launcher):
    launcher.start(plan())
    assert launcher.alive == {0: 1001, 1: 1002}
    loop.call_later(5, lambda: launcher.exits(1, 3))
    loop.call_later(6, lambda: launcher.exits(1, 4))  # it is gone
    assert rest(loop) == ["0 workers_started [1001, 1002]", "5 worker_exited 1 3"]
    assert launcher.alive == {0: 1001}


def test_answers_carry_the_attempt(loop, launcher):
    launcher.start(plan(attempt=7))
    launcher.stop(7, "SIGTERM", 3.0)
    events = [loop.next_event() for _ in range(3)]
    assert {event.attempt for event in events} == {7}


@pytest.mark.parametrize(
    ("conduct", "told"),
    [
        (OnStop(), "10 worker_exited 0 -2*"),
        (OnStop(takes=2), "12 worker_exited 0 -2*"),
        (OnStop(takes=2, exit_code=0), "12 worker_exited 0 0*"),
        (OnStop(takes=None), "14 worker_exited 0 -9*"),
        (OnStop(takes=30, exit_code=0), "14 worker_exited 0 -9*"),
    ],
)
def test_how_a_worker_takes_a_stop(loop, launcher, conduct, told):
    launcher.on_stop[0] = conduct
    launcher.start(plan(workers=1))
    loop.call_later(10, lambda: launcher.stop(0, "SIGINT", 4.0))
    moment = told.split()[0]
    assert rest(loop)[1:] == [told, f"{moment} workers_stopped"]


def test_a_stop_of_nobody_is_answered(loop, launcher):
    launcher.stop(-1, "SIGTERM", 4.0)
    assert rest(loop) == ["0 workers_stopped"]


def test_a_second_stop_joins_the_first(loop, launcher):
    launcher.on_stop = {0: OnStop(takes=None), 1: OnStop(takes=1)}
    launcher.start(plan())
    for when in (10, 10, 12, 13.5):
        loop.call_later(when, lambda: launcher.stop(0, "SIGTERM", 4.0))
    assert rest(loop)[1:] == [
        "11 worker_exited 1 -15*", "14 worker_exited 0 -9*", "14 workers_stopped",
    ]  # fmt: skip


def test_a_kill_cuts_the_grace_short_and_does_nothing_without_a_stop(loop, launcher):
    launcher.on_stop[0] = OnStop(takes=None)
    launcher.start(plan(workers=1))
    loop.call_later(5, launcher.kill)
    loop.call_later(10, lambda: launcher.stop(0, "SIGTERM", None))
    loop.call_later(11, launcher.kill)
    loop.call_later(11, launcher.kill)
    assert rest(loop)[1:] == ["11 worker_exited 0 -9*", "11 workers_stopped"]


def test_whoever_ended_before_the_stop_was_not_stopped(loop, launcher):
    launcher.on_stop = {rank: OnStop(takes=3) for rank in (0, 1)}
    launcher.start(plan(workers=3))
    loop.call_later(10, lambda: launcher.exits(2, 1))
    loop.call_later(10, lambda: launcher.stop(0, "SIGTERM", 4.0))
    loop.call_later(11, lambda: launcher.exits(1, 5))  # by itself, while being stopped
    assert rest(loop)[1:] == [
        "10 worker_exited 2 1", "11 worker_exited 1 5*", "13 worker_exited 0 -15*",
        "13 workers_stopped",
    ]  # fmt: skip


def test_what_survives_sigkill_is_stuck(loop, launcher):
    launcher.on_stop[1] = OnStop(survives_kill=True)
    launcher.start(plan())
    loop.call_later(10, lambda: launcher.stop(0, "SIGTERM", 4.0))
    for when in (15, 16):  # does not move the deadline
        loop.call_later(when, launcher.kill)
    assert rest(loop)[1:] == ["10 worker_exited 0 -15*", "19 workers_stuck [1002]"]
    assert launcher.close() == [1002]
    assert launcher.close() == []


def test_a_failing_start_leaves_out_the_rest(loop, launcher):
    launcher.cannot_start[1] = "cannot be started: no"
    launcher.start(plan(workers=3))
    assert launcher.alive == {0: 1001}
    assert rest(loop) == ["0 worker_exited 1 127"]
    launcher.stop(0, "SIGTERM", None)
    assert rest(loop) == ["0 worker_exited 0 -15*", "0 workers_stopped"]
    launcher.start(plan(attempt=1, workers=3))
    assert rest(loop) == ["0 workers_started [1002, 1003, 1004]"]


@pytest.mark.parametrize(("takes", "told"), [(3.0, ["3 workers_started [1001]"]), (None, [])])
def test_a_start_may_take_its_time(loop, launcher, takes, told):
    launcher.start_takes = takes
    launcher.start(plan(workers=1))
    assert rest(loop) == told


def test_a_start_that_is_stopped_is_not_answered(loop, launcher):
    launcher.start_takes = 3.0
    launcher.start(plan(workers=1))
    launcher.stop(0, "SIGTERM", 9.0)
    assert rest(loop) == ["0 worker_exited 0 -15*", "0 workers_stopped"]


def test_closing_ends_everybody_without_a_word(loop, launcher):
    launcher.start(plan())
    launcher.stop(0, "SIGTERM", 4.0)
    assert launcher.close() == []
    assert launcher.alive == {}
    assert "workers_stopped" not in " ".join(rest(loop))


def test_a_rendezvous_answers_when_the_script_says(loop):
    rendezvous = ScriptedRendezvous(loop)
    rendezvous.complete()  # nobody has joined
    rendezvous.answering = False
    me, other = Node("a", "t", 1, "10.0.0.1"), Node("b", "t", 2, "10.0.0.2")
    rendezvous.join(me, 3)
    rendezvous.barrier(3)
    rendezvous.leave()
    assert rest(loop) == []
    rendezvous.complete(before=[other])
    event = loop.next_event()
    assert (event.name, event.attempt) == ("rendezvous_completed", 3)
    world = event.data["world"]
    assert (world["round"], world["node_rank"], world["master_addr"]) == (0, 1, "10.0.0.2")
    rendezvous.answering = True
    rendezvous.barrier(3)
    assert rest(loop) == ["0 barrier_passed"]
    rendezvous.close()


def test_changes_are_laid_over_the_settings():
    plain = settings_for("fail_fast")
    changed = settings_for(
        "fail_fast",
        stop={"grace": 5.0},
        machine={"states": {"INIT": {"ignores": ["x"]}, "NEW": {"final": True}}},
    )
    assert (changed["stop"]["grace"], changed["stop"]["signal"]) == (5.0, "SIGTERM")
    assert changed["machine"]["states"]["INIT"]["ignores"] == ["x"]
    assert changed["machine"]["states"]["INIT"]["worker_state"] == "INIT"
    assert changed["machine"]["states"]["NEW"] == {"final": True}
    assert settings_for("fail_fast") == plain != changed


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (lambda run: run.exits(2, at=1), "there is no worker 2: they are 0 to 1"),
        (lambda run: run.exits(-1, at=1), "there is no worker -1"),
        (lambda run: run.exits(0, code=256, at=1), "nobody ends with 256"),
        (lambda run: run.exits(0, code=-99, at=1), "nobody ends with -99"),
        (lambda run: run.signal("SIGTREM", at=1), "did you mean 'SIGTERM'?"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(write, what):
    run = Scenario("elastic", workers=2)
    with pytest.raises(ValueError, match=re.escape(what)):
        write(run)
    run.loop.close()


def test_the_example_of_the_documentation():
    run = Scenario("elastic", workers=4, max_restarts=1)
    run.exits(3, code=137, at=40)
    run.signal("SIGTERM", at=100)
    result = run.play()
    assert ("restart", "BACKOFF") in run.path
    assert result.exit_code == 128 + 15

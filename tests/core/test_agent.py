"""The agent's own part: the order of journal and actions, stale answers, errors, results."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal

import pytest
from scenarios import START

from elastic_fsm.events import Event
from elastic_fsm.group import WorkerState
from elastic_fsm.registry import action, condition, delay
from elastic_fsm.sources.base import Source
from elastic_fsm.testing import NothingCanHappen, OnStop, Scenario
from elastic_fsm.world import Node


def path_of(run):
    return ", ".join(f"{transition} {state}" for transition, state in run.path)


def outcomes(run, *words):
    return [(r["event"]["name"], r["outcome"]) for r in run.records if r.get("outcome") in words]


# -- what is shown, and what it costs ----------------------------------------------------------


def test_all_seven_worker_states_are_shown_at_the_right_moments(module_of):
    @action
    def explode(agent, event):
        raise OSError("boom")

    def shown(run):
        run.play()
        steps = [r for r in run.records if r.get("entered")]
        return [f"{r['dest']}={r['worker_state']}" for r in steps]

    restarted = Scenario("elastic", max_restarts=1)
    restarted.exits(0, code=1, at=10)
    for rank in (0, 1):
        restarted.exits(rank, at=20)
    assert shown(restarted) == [
        "JOINING=INIT", "STARTING=INIT", "HEALTHY=HEALTHY", "UNHEALTHY=UNHEALTHY",
        "BACKOFF=STOPPED", "JOINING=STOPPED", "STARTING=STOPPED", "HEALTHY=HEALTHY",
        "SETTLING=SUCCEEDED", "SUCCEEDED=SUCCEEDED",
    ]  # fmt: skip
    failed = Scenario("elastic")
    failed.exits(0, code=1, at=10)
    assert shown(failed)[-1] == "FAILED=FAILED"
    changed = Scenario("elastic")
    changed.post("membership_changed", at=10)
    changed.signal("SIGTERM", at=20)
    assert shown(changed)[3:] == [
        "REFORMING=STOPPED", "JOINING=STOPPED", "STARTING=STOPPED", "HEALTHY=HEALTHY",
        "STOPPING=STOPPED", "STOPPED=STOPPED",
    ]  # fmt: skip
    broken = Scenario(
        "elastic",
        plugins=[module_of(explode)],
        machine={"states": {"STARTING": {"on_enter": ["explode"]}}},
    )
    assert shown(broken)[-2:] == ["ABORTING=UNKNOWN", "UNKNOWN=UNKNOWN"]
    doubted = Scenario("fail_fast")
    doubted.exits(0, code=-15, at=10)
    assert shown(doubted)[-2:] == ["DOUBTING=UNHEALTHY", "FAILED=FAILED"]


def test_a_restart_is_spent_when_it_happens_and_not_before():
    run = Scenario("elastic", max_restarts=2, restart={"delay": 10.0})
    run.exits(0, code=1, at=10)
    run.exits(0, code=1, at=30)  # the second attempt, which began at 20
    run.signal("SIGTERM", at=35)  # while waiting for the third
    run.play()
    assert run.agent.restarts_used == 1
    assert [a.number for a in run.agent.history] == [0, 1]


def test_restarts_because_nodes_change_cost_nothing():
    run = Scenario("elastic", max_restarts=1)
    for when in (10, 20, 30):
        run.post("membership_changed", at=when)
    run.exits(0, code=9, at=40)
    run.exits(0, code=9, at=50)
    result = run.play()
    assert (run.agent.membership_restarts, run.agent.restarts_used) == (3, 1)
    assert (result.state, result.exit_code) == (WorkerState.FAILED, 9)
    assert [call for call in run.launcher.calls if call[0] == "start"] == [
        ("start", number) for number in range(5)
    ]


def test_the_wait_before_a_restart_grows_up_to_a_limit():
    run = Scenario(
        "elastic", max_restarts=4, restart={"delay": 1.0, "factor": 3.0, "max_delay": 5.0}
    )
    for when in (100, 200, 300, 400, 500):
        run.exits(0, code=1, at=when)
    run.play()
    waits = [r["event"]["data"]["after"] for r in run.records if r.get("transition") == "again"]
    assert waits == [1.0, 3.0, 5.0, 5.0]


# -- rule 3: the journal comes first -----------------------------------------------------------


def test_facts_are_of_their_moment():
    run = Scenario("elastic", workers=3, max_restarts=1)
    run.exits(2, at=10)
    run.exits(0, code=1, at=20)
    for rank in range(3):
        run.exits(rank, at=30)
    run.play()
    facts = [r["facts"] for r in run.records if r["event"]["name"] == "worker_exited"]
    assert [(f["alive"], f["exit_codes"], f["stopped"]) for f in facts] == [
        ((0, 1), {2: 0}, ()),
        ((1,), {2: 0, 0: 1}, ()),
        ((), {2: 0, 0: 1, 1: -15}, (1,)),
        ((1, 2), {0: 0}, ()),
        ((2,), {0: 0, 1: 0}, ()),
        ((), {0: 0, 1: 0, 2: 0}, ()),
    ]
    joined = [r["facts"] for r in run.records if r.get("transition") == "joined"]
    assert [(f["alive"], f["exit_codes"], f["stopped"]) for f in joined] == [((), {}, ())] * 2


@pytest.mark.parametrize("what", ["data", "exit_codes"])
def test_a_rule_cannot_change_what_it_is_given(what, module_of):
    """It is to blame, and not whoever reads the same event after it."""

    @condition
    def changes(event, facts):
        given = event.data if what == "data" else facts.exit_codes
        given[1] = 0
        return True

    lost = {"worker_lost": {"conditions": ["worker_failed", "changes"]}}
    plugin = module_of(changes)
    run = Scenario("elastic", workers=2, plugins=[plugin], machine={"transitions": lost})
    run.exits(1, code=3, at=5)
    assert run.play().exit_code == 70
    assert run.agent.error.startswith("changes: condition changes of worker_lost: TypeError")
    exited = next(r for r in run.records if r["event"]["name"] == "worker_exited")
    assert exited["event"]["data"]["exit_code"] == 3
    assert exited["facts"]["exit_codes"] == {1: 3}


@pytest.mark.parametrize("again", [copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))])
def test_an_event_can_be_copied_and_sent(again):
    event = Event("worker_exited", {"local_rank": 1}, attempt=2)
    assert again(event) == event


def test_a_second_word_about_an_end_changes_nothing():
    run = Scenario("elastic", workers=2)
    run.exits(0, at=5)
    again = {"local_rank": 0, "pid": 1, "exit_code": 0, "reason": "", "stopped_by_agent": False}
    run.at(6, lambda: run.loop.post(Event("worker_exited", again, attempt=0)))
    run.exits(1, at=10)
    run.play()
    ended = [(each.local_rank, each.exit_code) for each in run.agent.history[-1].exits]
    assert ended == [(0, 0), (1, 0)]


def test_a_step_is_in_the_journal_before_its_actions_run(tmp_path, module_of):
    seen = []

    @action
    def look(agent, event):
        last = (tmp_path / "journal").read_text().splitlines()[-1]
        seen.append((json.loads(last)["transition"], agent.machine.state.name))

    run = Scenario(
        "elastic",
        journal=tmp_path / "journal",
        plugins=[module_of(look)],
        machine={
            "states": {"HEALTHY": {"on_enter": ["look"], "on_exit": ["look"]}},
            "transitions": {"worker_done": {"after": ["look"]}, "told_to_stop": {"before": "look"}},
        },
    )
    run.exits(0, at=10)
    run.signal("SIGTERM", at=20)
    run.play()
    assert seen == [
        ("started", "HEALTHY"),
        ("worker_done", "HEALTHY"),
        ("told_to_stop", "STOPPING"),
        ("told_to_stop", "STOPPING"),
    ]
    _, *lines = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    written = [{k: v for k, v in line.items() if k not in ("seq", "check")} for line in lines]
    assert written == json.loads(json.dumps(run.records))


# -- rule 5: one stop, one answer; stale answers -----------------------------------------------


def test_a_stop_during_a_stop_joins_it():
    run = Scenario("elastic", max_restarts=3, stop={"grace": 20.0})
    run.launcher.on_stop[1] = OnStop(takes=None)
    run.exits(0, code=1, at=10)
    run.signal("SIGTERM", at=15)
    result = run.play()
    assert path_of(run) == (
        f"{START}, worker_lost UNHEALTHY, told_to_stop STOPPING, stopped STOPPED"
    )
    assert run.launcher.calls == [
        ("start", 0), ("stop", 0, "SIGTERM", 20.0), ("stop", 0, "SIGTERM", 20.0), ("close",),
    ]  # fmt: skip
    assert outcomes(run, "step").count(("workers_stopped", "step")) == 1
    assert run.loop.clock.now() == 30  # the first deadline holds
    assert result.exit_code == 143


def test_workers_get_the_signal_that_the_agent_got():
    run = Scenario("elastic", stop={"grace": None})
    run.signal("SIGINT", at=10)
    run.play()
    assert run.launcher.calls[1] == ("stop", 0, "SIGINT", None)


def test_answers_of_another_attempt_are_noted_and_dropped():
    run = Scenario("elastic", max_restarts=1)
    run.exits(0, code=1, at=10)
    late = {"local_rank": 0, "pid": 1, "exit_code": 9, "stopped_by_agent": False, "reason": ""}
    for name, data in (("worker_exited", late), ("workers_stopped", {}), ("workers_started", {})):
        run.at(20, run.loop.post, Event(name, data, attempt=0))
    run.exits(0, at=30)
    run.exits(1, at=30)
    result = run.play()
    assert outcomes(run, "stale") == [
        ("worker_exited", "stale"), ("workers_stopped", "stale"), ("workers_started", "stale"),
    ]  # fmt: skip
    assert result.exit_code == 0
    assert result.failures == {}


def test_a_timer_of_a_state_that_was_left_is_stale():
    """The timer and the signal come in one turn of the loop; the signal goes to the front."""
    run = Scenario("fail_fast")
    run.exits(0, code=-15, at=10)
    run.at(10, lambda: run.at(0.1, lambda: None))
    run.signal("SIGTERM", at=10.1)
    run.play()
    ends = run.path[-3:]
    assert ends == [("suspect", "DOUBTING"), ("told_to_stop", "STOPPING"), ("stopped", "STOPPED")]


def test_a_timer_that_has_fired_is_dropped_when_the_state_is_left_first():
    run = Scenario("elastic")
    run.rendezvous.answering = False
    run.at(600, run.rendezvous.complete)  # joined, one event before the timer of JOINING
    run.signal("SIGTERM", at=700)
    run.play()
    assert outcomes(run, "stale") == [("rendezvous_overdue", "stale")]
    assert ("no_quorum", "FAILED") not in run.path


def test_events_without_a_transition_are_noted_and_change_nothing():
    run = Scenario("elastic")
    run.post("barrier_passed", at=5)
    run.post("something_else", at=6)
    run.signal("SIGTERM", at=10)
    run.play()
    assert ("barrier_passed", "ignored") in outcomes(run, "ignored")
    assert ("something_else", "ignored") in outcomes(run, "ignored")
    assert path_of(run) == f"{START}, told_to_stop STOPPING, stopped STOPPED"


# -- rule 7: what raises -----------------------------------------------------------------------


@pytest.fixture
def rules(module_of):
    ran = []

    @action
    def explode(agent, event):
        raise OSError("boom")

    @action(optional=True)
    def explode_quietly(agent, event):
        raise OSError("puff")

    @action
    def mark(agent, event):
        ran.append(event.name)

    @condition
    def broken(event, facts):
        raise LookupError("no such thing")

    @delay(may_be_never=True)
    def never(facts, settings):
        return None

    module = module_of(explode, explode_quietly, mark, broken, never)
    module.ran = ran
    return module


def test_the_actions_after_one_that_raised_are_skipped(rules):
    run = Scenario(
        "elastic",
        plugins=[rules],
        machine={"states": {"HEALTHY": {"on_enter": ["mark", "explode", "mark"]}}},
    )
    result = run.play()
    assert rules.ran == ["workers_started"]
    assert path_of(run).endswith("started HEALTHY, broken ABORTING, aborted UNKNOWN")
    assert run.agent.error.startswith("explode: OSError: boom (test_agent.py:")
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    failure = next(r for r in run.records if r.get("transition") == "broken")
    assert failure["event"]["data"] == {"name": "explode", "error": "OSError: boom"}


def test_a_failed_action_goes_before_what_waits_in_the_inbox(rules):
    run = Scenario(
        "elastic", plugins=[rules], machine={"states": {"JOINING": {"on_exit": ["explode"]}}}
    )
    run.rendezvous.answering = False
    run.at(5, run.rendezvous.complete)
    run.post("membership_changed", at=5)
    run.play()
    names = [r["event"]["name"] for r in run.records]
    assert names.index("action_failed") < names.index("membership_changed")


def test_an_optional_action_that_raises_is_only_noted(rules):
    run = Scenario(
        "elastic",
        plugins=[rules],
        machine={"states": {"HEALTHY": {"on_enter": ["explode_quietly", "mark"]}}},
    )
    run.signal("SIGTERM", at=10)
    result = run.play()
    notes = [record["note"] for record in run.records if "note" in record]
    assert notes == ["the action explode_quietly failed: OSError: puff"]
    assert rules.ran == ["workers_started"]
    assert (run.agent.error, result.exit_code) == ("", 143)


def test_a_condition_that_raises_consumes_its_event(rules):
    run = Scenario(
        "elastic",
        plugins=[rules],
        machine={"transitions": {"all_done": {"conditions": ["broken"]}}},
    )
    run.exits(0, at=10)
    result = run.play()
    assert outcomes(run, "failed") == [("worker_exited", "failed")]
    assert path_of(run) == f"{START}, broken ABORTING, aborted UNKNOWN"
    assert "condition broken of all_done: LookupError: no such thing" in run.agent.error
    assert result.exit_code == 70


def test_a_condition_on_failures_that_raises_ends_the_run_at_once(rules):
    run = Scenario(
        "elastic",
        plugins=[rules],
        machine={
            "states": {"HEALTHY": {"on_enter": ["explode"]}},
            "transitions": {
                "mild": {
                    "trigger": "action_failed",
                    "source": ["HEALTHY"],
                    "conditions": ["broken"],
                }
            },
        },
    )
    result = run.play()
    assert path_of(run) == START
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    assert run.agent.error.startswith("explode: OSError: boom (test_agent.py:")
    assert run.launcher.alive == {}


def test_an_action_that_raises_on_the_way_into_a_final_state_ends_the_run(rules):
    run = Scenario(
        "elastic",
        plugins=[rules],
        machine={"states": {"SUCCEEDED": {"on_enter": ["explode"]}}},
    )
    run.exits(0, at=10)
    run.exits(1, at=10)
    result = run.play()
    assert run.agent.machine.state.name == "SUCCEEDED"
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    assert run.agent.error.startswith("explode: OSError: boom (test_agent.py:")


@pytest.mark.parametrize("machine", ["elastic", "fail_fast"])
def test_failing_over_failures_comes_to_an_end(rules, machine):
    """Whatever a declaration says about failures, it is not asked for ever."""
    run = Scenario(
        machine,
        plugins=[rules],
        machine={
            "states": {"HEALTHY": {"on_enter": ["explode"], "ignores": []}},
            "transitions": {
                "stubborn": {"trigger": "action_failed", "source": ["HEALTHY"], "after": "explode"}
            },
        },
    )
    result = run.play()
    assert [transition for transition, _ in run.path].count("stubborn") <= 3
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    assert run.launcher.alive == {}


def test_failures_far_apart_are_not_failures_over_failures(rules):
    run = Scenario(
        "elastic",
        plugins=[rules],
        machine={
            "transitions": {
                "nothing": {"trigger": "signal_received", "source": ["HEALTHY"], "priority": 1,
                            "conditions": [{"signal_in": ["SIGUSR1"]}], "after": "explode"},
                "forgive": {"trigger": "action_failed", "source": ["HEALTHY"]},
            },
        },
    )  # fmt: skip
    for when in range(1, 7):
        run.signal("SIGUSR1", at=when)
    run.signal("SIGTERM", at=10)
    assert run.play().exit_code == 143
    assert [transition for transition, _ in run.path].count("forgive") == 6


def test_a_delay_that_raises_is_a_failed_action(module_of):
    @delay
    def unclear(facts, settings):
        raise KeyError("restart")

    run = Scenario(
        "elastic",
        max_restarts=1,
        plugins=[module_of(unclear)],
        machine={"states": {"BACKOFF": {"timeouts": {"backoff_elapsed": "unclear"}}}},
    )
    run.exits(0, code=1, at=10)
    result = run.play()
    assert path_of(run).endswith("restart BACKOFF, broken ABORTING, aborted UNKNOWN")
    assert result.exit_code == 70
    assert "KeyError" in run.agent.error


class Broken(Source):
    """A source that cannot be started."""

    closed = 0

    def start(self):
        raise OSError("no descriptors")

    def close(self):
        self.closed += 1


def test_an_error_outside_of_any_action_ends_the_run_too():
    run = Scenario("elastic")
    run.agent._sources = [source := Broken()]
    result = run.play()
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    assert run.agent.error.startswith("OSError: no descriptors (test_agent.py:")
    (note,) = run.records
    assert note["note"] == "the agent's own code failed"
    assert "no descriptors" in note["traceback"]
    assert source.closed == 1
    assert run.launcher.calls == [("close",)]


def test_a_delay_may_say_never(rules):
    run = Scenario(
        "elastic",
        max_restarts=1,
        plugins=[rules],
        machine={"states": {"BACKOFF": {"timeouts": {"backoff_elapsed": "never"}}}},
    )
    run.exits(0, code=1, at=10)
    run.signal("SIGTERM", at=1000)
    run.play()
    assert path_of(run).endswith("restart BACKOFF, told_to_stop STOPPING, stopped STOPPED")


# -- rule 9: the result ------------------------------------------------------------------------


def test_results_are_by_global_rank():
    run = Scenario("elastic", workers=3)
    run.rendezvous.answering = False
    others = [Node("node-9", "default", 4, "10.0.0.9"), Node("node-8", "reader", 1, "10.0.0.8")]
    run.at(1, lambda: run.rendezvous.complete(before=others[:1], after=others[1:]))
    run.exits(0, at=10)
    run.exits(2, code=-11, at=20)
    result = run.play()
    assert result.return_values == {4: None}
    assert list(result.failures) == [6]
    failure = result.failures[6]
    assert (failure.local_rank, failure.exitcode, failure.signal_name()) == (2, -11, "SIGSEGV")
    assert failure.timestamp == run.loop.clock.wall()
    assert (result.state, result.exit_code, result.is_failed()) == (WorkerState.FAILED, 139, True)
    assert run.agent.history[0].world_size == 8
    assert run.agent.group.master_addr == "10.0.0.9"


def test_the_result_of_a_success_after_a_failure_names_no_failure():
    run = Scenario("elastic", max_restarts=1)
    run.exits(0, code=1, at=10)
    run.exits(0, at=20)
    run.exits(1, at=20)
    result = run.play()
    assert (result.return_values, result.failures) == ({0: None, 1: None}, {})
    assert list(run.agent.history[0].failures) == [0]
    assert not result.is_failed()


def test_workers_that_the_agent_stopped_are_in_neither_map():
    run = Scenario("elastic", workers=3)
    run.exits(0, code=4, at=10)
    result = run.play()
    assert list(result.failures) == [0]
    assert result.return_values == {}
    stopped = [e.local_rank for e in run.agent.history[0].exits if e.stopped_by_agent]
    assert stopped == [1, 2]


def test_a_worker_that_ends_with_0_because_it_was_stopped_has_not_succeeded():
    """It may have saved a checkpoint, but its work is not done: it returned nothing."""
    run = Scenario("elastic", workers=2)
    run.launcher.on_stop = {0: OnStop(exit_code=0), 1: OnStop(exit_code=0)}
    run.signal("SIGTERM", at=10)
    result = run.play()
    assert (result.state, result.return_values) == (WorkerState.STOPPED, {})


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
def test_told_to_stop_the_exit_code_names_the_signal(name):
    run = Scenario("fail_fast")
    run.signal(name, at=10)
    assert run.play().exit_code == 128 + signal.Signals[name]


@pytest.mark.parametrize(
    ("declared", "code"), [(0, 0), (77, 77), ("signal", 1), ("worker", 3)], ids=str
)
def test_exit_codes_are_those_of_the_declaration(declared, code):
    """``signal`` without a signal, and ``worker`` without a failed one, are 1."""
    run = Scenario("fail_fast", machine={"states": {"FAILED": {"exit_code": declared}}})
    run.exits(0, code=3, at=10)
    assert run.play().exit_code == code


def test_a_final_state_that_shows_nothing_leaves_what_was_shown():
    run = Scenario("fail_fast", machine={"states": {"FAILED": {"worker_state": None}}})
    run.exits(0, code=3, at=10)
    assert run.play().state is WorkerState.UNHEALTHY


def test_attempts_are_numbered_from_the_first_one():
    run = Scenario("elastic", max_restarts=1, first_attempt=7)
    run.exits(0, code=3, at=10)
    run.signal("SIGTERM", at=20)
    run.play()
    assert [attempt.number for attempt in run.agent.history] == [7, 8]
    assert all(attempt.ended is not None for attempt in run.agent.history)


def test_a_machine_that_waits_for_nothing_is_an_error_of_the_test_and_leaves_nobody():
    run = Scenario("elastic", workers=2)
    with pytest.raises(NothingCanHappen, match="at 0 s: no event is left"):
        run.play()
    assert run.launcher.alive == {}
    assert run.launcher.calls[-1] == ("close",)


def test_what_survives_the_end_is_told():
    run = Scenario("elastic", stop={"kill_timeout": None})
    run.launcher.on_stop[1] = OnStop(survives_kill=True)
    with pytest.raises(NothingCanHappen):
        run.play()
    assert run.agent.error == "these processes survived SIGKILL: [1002]"


def test_a_signal_before_anything_has_begun():
    run = Scenario("elastic")
    run.loop.post(Event("signal_received", {"signal": "SIGTERM"}))
    result = run.play()
    assert path_of(run) == "told_to_stop STOPPING, stopped STOPPED"
    assert result.exit_code == 143
    assert run.agent.history == []
    assert run.launcher.calls == [("stop", -1, "SIGTERM", 25.0), ("close",)]


def test_an_end_that_belongs_to_no_attempt_is_no_failure_of_ours():
    run = Scenario("elastic")
    run.rendezvous.answering = False
    data = {"local_rank": 0, "pid": 7, "exit_code": 1, "stopped_by_agent": False, "reason": ""}
    run.post("worker_exited", at=1, **data)
    run.signal("SIGTERM", at=2)
    result = run.play()
    assert (result.failures, result.exit_code) == ({}, 143)


def test_a_worker_that_crashes_at_the_moment_of_a_stop_is_told_of():
    """It ended before the agent stopped anybody, so it was not the agent's doing."""
    run = Scenario("elastic")
    run.exits(1, code=-11, at=10)
    run.signal("SIGTERM", at=10)  # in the same turn of the loop, and taken first
    result = run.play()
    assert path_of(run) == f"{START}, told_to_stop STOPPING, stopped STOPPED"
    assert {rank: f.exitcode for rank, f in result.failures.items()} == {1: -11}
    assert result.exit_code == 143


@pytest.mark.parametrize("machine", ["elastic", "fail_fast"])
@pytest.mark.parametrize(
    ("second", "end"), [(10.05, 35.0), (10.5, 10.5)], ids=["same stop", "once more"]
)
def test_told_once_more_the_grace_is_cut_short(machine, second, end):
    """Within ``stop.window`` it is the same stop, come by another way."""
    run = Scenario(machine)
    run.launcher.on_stop = {rank: OnStop(takes=None) for rank in (0, 1)}
    run.signal("SIGINT", at=10)
    run.signal("SIGINT", at=second)
    assert run.play().exit_code == 130
    assert run.loop.clock.now() == end


def test_the_first_cause_is_the_worker_that_wrote_its_error_first(tmp_path):
    """It takes a while to end after that, and its peers may crash meanwhile."""
    run = Scenario("elastic")
    path = tmp_path / "error.json"
    path.write_text('{"message": "the cause"}')
    os.utime(path, (run.loop.clock.wall() + 9,) * 2)
    run.agent.outputs.error_file = lambda attempt, rank: str(path) if rank == 1 else ""
    run.exits(0, code=5, at=10)
    run.exits(1, code=6, at=10)
    result = run.play()
    assert result.exit_code == 6
    assert {rank: f.message for rank, f in result.failures.items()} == {0: "", 1: "the cause"}


def test_workers_that_died_of_the_signal_that_stopped_the_run_did_not_fail():
    run = Scenario("elastic", workers=3)
    run.exits(0, code=-15, at=10.0)
    run.exits(1, code=1, at=10.0)
    run.signal("SIGTERM", at=10.05)
    result = run.play()
    assert result.exit_code == 143
    assert list(result.failures) == [1]


# -- closing -----------------------------------------------------------------------------------


def fails(text):
    def fail(*_):
        raise LookupError(text)

    return fail


def test_what_fails_to_close_keeps_nothing_else_open():
    run = Scenario("elastic")
    broken, closed = Broken(), Broken()
    for source in (broken, closed):
        source.start = lambda: None
    broken.close = fails("the source")
    run.agent._sources = [broken, closed]
    run.agent.rendezvous.close = fails("the rendezvous")
    run.exits(0, at=10)
    run.exits(1, at=10)
    result = run.play()
    assert (result.state, result.exit_code) == (WorkerState.SUCCEEDED, 0)
    assert closed.closed == 1
    assert run.agent.error.startswith("closing: LookupError: the rendezvous (test_agent.py:")
    assert [r["note"] for r in run.records if "note" in r] == [
        "closing: LookupError: the rendezvous",
        "closing: LookupError: the source",
    ]


def test_a_launcher_that_cannot_be_closed_may_have_left_anything():
    run = Scenario("elastic")
    run.launcher.close = fails("the launcher")
    run.exits(0, code=3, at=10)
    result = run.play()
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    assert run.agent.error.startswith(
        "closing the launcher: LookupError: the launcher (test_agent.py:"
    )


def test_an_observer_that_fails_does_not_take_the_result_away():
    run = Scenario("elastic")
    run.observers.append(fails("nobody looks"))
    result = run.play()
    assert (result.state, result.exit_code) == (WorkerState.UNKNOWN, 70)
    assert run.agent.error.startswith("LookupError: nobody looks (test_agent.py:")
    assert run.launcher.calls[-1] == ("close",)

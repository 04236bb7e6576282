"""Everything that can happen: proofs for what we ship, counter-examples for what is broken.

``removals.txt`` says for each arrow of each shipped machine what breaks when it is removed.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest

from elastic_fsm.binding import bind
from elastic_fsm.checks import check
from elastic_fsm.config.paths import conf_dir
from elastic_fsm.exploration import CLAIMS, explore
from elastic_fsm.plugins import rules_for
from elastic_fsm.reading import read_machine
from elastic_fsm.registry import action, condition, delay
from elastic_fsm.scenario.counterexample import as_scenario
from elastic_fsm.scenario.playing import play
from elastic_fsm.scenario.script import parse_script
from elastic_fsm.testing import settings_for

SHIPPED = sorted(path.stem for path in (conf_dir() / "elastic_fsm" / "machine").glob("*.yaml"))
REMOVALS = Path(__file__).parent / "removals.txt"


def bound(values):
    registry = rules_for(values["plugins"])
    spec, problems = read_machine(values["machine"])
    rules, unbound = bind(spec, registry, values)
    return spec, rules, problems + unbound + check(spec, rules, registry.answers())


def broken(values):
    """The claims that do not hold, each with its finding."""
    spec, rules, _ = bound(values)
    return explore(spec, rules).findings


def changed(*, without=(), **machine):
    values = copy.deepcopy(settings_for("elastic", machine=machine))
    for name in without:
        del values["machine"]["transitions"][name]
    return values


@pytest.mark.parametrize("name", SHIPPED)
def test_every_claim_holds_for_what_we_ship(name):
    spec, rules, problems = bound(settings_for(name))
    result = explore(spec, rules)
    assert (problems, result.findings, result.complete) == ([], {}, True)
    assert 100 < result.configurations < 2000


@pytest.mark.parametrize("name", SHIPPED)
def test_every_transition_is_met(name):
    """Else the proof would say nothing about it."""
    spec, rules, _ = bound(settings_for(name))
    explorer_saw = set()
    for transition in spec.transitions:
        values = copy.deepcopy(settings_for(name))
        # An action that spends what is not there makes any step that is taken a finding.
        values["machine"]["transitions"][transition]["after"] = ["spend_restart"] * 3
        spec, rules, _ = bound(values)
        finding = explore(spec, rules).findings.get("budget")
        if finding and finding.moves[-1].transition == transition:
            explorer_saw.add(transition)
    assert set(spec.transitions) - explorer_saw == set()


def test_what_each_removed_arrow_breaks():
    """After a change REWRITE=1 writes the file anew; keep only what you can explain."""
    lines = []
    for name in SHIPPED:
        for transition in settings_for(name)["machine"]["transitions"]:
            values = copy.deepcopy(settings_for(name))
            del values["machine"]["transitions"][transition]
            _, _, problems = bound(values)
            lines.append(f"{name} without {transition}: {len(problems)} problems of the checks")
            findings = broken(values).values()
            lines += [f"    {f.claim}: {f.what}, after {len(f.moves)} moves" for f in findings]
    if os.environ.get("REWRITE"):
        REMOVALS.write_text("\n".join(lines) + "\n")
    assert lines == REMOVALS.read_text().splitlines()


# -- each claim can be broken ----------------------------------------------------------------------

BREAKS = {
    "final": changed(
        states={"PAUSED": {"ignores": ["worker_exited", "membership_changed", "action_failed"]}},
        transitions={
            "pause": {"trigger": "signal_received", "source": ["INIT"], "dest": "PAUSED"},
            "stay": {"trigger": "signal_received", "source": ["PAUSED"]},
        },
    ),
    "budget": changed(transitions={"restart": {"conditions": [{"in_state_for": "0s"}]}}),
    "stops": changed(
        states={"REFORMING": {"on_enter": ["stop_workers", "join_rendezvous"]}},
    ),
    "notices": changed(without=["reform"]),
    "waiting": changed(without=["early_finish"]),
    "groups": changed(transitions={"worker_lost": {"dest": "BACKOFF"}}),
}


def test_every_claim_has_a_machine_that_breaks_it():
    assert set(BREAKS) == set(CLAIMS)


@pytest.mark.parametrize("claim", BREAKS)
def test_a_claim_that_does_not_hold(claim):
    finding = broken(BREAKS[claim])[claim]
    assert finding.claim == claim
    assert finding.what
    assert finding.moves or claim == "final"


def test_the_way_is_a_shortest_one():
    finding = broken(BREAKS["groups"])["groups"]
    assert [move.transition for move in finding.moves] == [
        "begin", "joined", "worker_lost", "again", "joined",
    ]  # fmt: skip
    assert (finding.budget, finding.moves[2].event) == (1, "worker_exited")


def test_a_budget_that_is_exceeded_is_exceeded_from_nothing():
    finding = broken(BREAKS["budget"])["budget"]
    assert finding.budget == 0
    assert finding.moves[-1].transition == "again"


# -- a counter-example is a scenario ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "claim"),
    [
        (changed(without=["early_finish"]), "waiting"),
        (changed(without=["all_done"]), "waiting"),
        (changed(without=["worker_lost"]), "waiting"),
        (BREAKS["budget"], "budget"),
        (BREAKS["groups"], "groups"),
    ],
    ids=["early_finish", "all_done", "worker_lost", "budget", "groups"],
)
def test_played_it_goes_that_way(values, claim):
    """The real machine, agent and loop do what the exploration says they can."""
    spec, rules, _ = bound(values)
    finding = explore(spec, rules).findings[claim]
    end = "" if claim == "waiting" else "end at 1h\n"  # some of these would go on for ever
    script = parse_script(as_scenario(finding, spec, rules) + end)
    for word in script.overrides:
        key, _, number = word.removeprefix("spec.").partition("=")
        values["spec"][key] = int(number)
    values["spec"].setdefault("max_restarts", 0)
    run = play(script, values, rules_for([]))
    expected = [move.transition for move in finding.moves if move.transition]
    assert [transition for transition, _ in run.run.path][: len(expected)] == expected
    if claim == "waiting":
        assert run.ending == "for ever: nothing else can happen"


def test_what_follows_by_itself_is_a_comment():
    spec, rules, _ = bound(BREAKS["notices"])
    text = as_scenario(explore(spec, rules).findings["notices"], spec, rules)
    assert text.splitlines() == [
        "# membership_changed comes in STARTING, where nothing is said about it",
        "workers 2",
        "start takes 2s",
        "                          # run_requested: begin -> JOINING",
        "                          # rendezvous_completed: joined -> STARTING",
        "at 1s membership changes  # membership_changed: nothing happens",
    ]


def test_every_counter_example_can_be_read():
    for line in settings_for("elastic")["machine"]["transitions"]:
        spec, rules, _ = bound(changed(without=[line]))
        for finding in explore(spec, rules).findings.values():
            assert parse_script(as_scenario(finding, spec, rules))


def test_a_machine_that_is_too_big_is_not_said_to_be_sound(monkeypatch):
    monkeypatch.setattr("elastic_fsm.exploration.search._MOST_CONFIGURATIONS", 100)
    spec, rules, _ = bound(settings_for("elastic"))
    result = explore(spec, rules)
    assert (result.complete, result.findings) == (False, {})


# -- how conditions, actions and timers are taken --------------------------------------------------


OOPS = {"oops": {"trigger": "action_failed", "source": "any", "dest": "END"}}


def small(states, transitions, *rules, failures=OOPS):
    """A machine from A, in which nothing happens unless the test says so."""
    quiet = ["worker_exited", "membership_changed", "signal_received"]
    quiet += [] if failures else ["action_failed"]
    data = {
        "initial": "A",
        "states": {
            name: {"ignores": quiet} | state if not state.get("final") else state
            for name, state in states.items()
        }
        | {"END": {"final": True, "exit_code": 0}},
        "transitions": {**transitions, **failures},
    }
    registry = rules_for([])
    for function in rules:
        registry._add_marked(function)
    spec, problems = read_machine(data)
    bound_rules, unbound = bind(spec, registry, {})
    assert not problems + unbound
    return explore(spec, bound_rules).findings


GO = {"trigger": "run_requested", "source": ["A"], "dest": "B"}


@condition
def sunny(event, facts):
    return True


@delay
def never(facts, settings):
    return None


@delay
def needs_facts(facts, settings):
    return 1 / facts.attempt


@action(answers=["dug_out", "gave_up"])
def dig(agent, event):
    """Somebody answers."""


def test_a_condition_and_its_unless_agree_within_a_step():
    both = {
        "first": {**GO, "conditions": ["sunny"], "dest": "END"},
        "second": {**GO, "unless": ["sunny"], "dest": "END"},
    }
    assert not small({"A": {}}, both, sunny)
    same = {**both, "second": {**GO, "conditions": ["sunny"], "dest": "END"}}
    assert small({"A": {}}, same, sunny)["waiting"].what == "A waits for nothing"


def test_a_condition_that_raises_loses_the_event():
    arrows = {"go": {**GO, "conditions": ["sunny"], "dest": "END"}, "else": {**GO, "dest": "END"}}
    finding = small({"A": {}}, arrows, sunny, failures={})["waiting"]
    assert finding.moves[0].failed == "sunny"


@pytest.mark.parametrize(
    ("value", "waits"), [("5s", True), (0, True), (None, False), ("never", False)]
)
def test_a_timer_that_is_never_armed_is_not_waited_for(value, waits):
    arrows = {"go": GO, "done": {"trigger": "rested", "source": ["B"], "dest": "END"}}
    findings = small({"A": {}, "B": {"timeouts": {"rested": value}}}, arrows, never)
    assert ("waiting" not in findings) == waits


def test_a_delay_that_needs_a_run_is_taken_to_come():
    arrows = {"go": GO, "done": {"trigger": "rested", "source": ["B"], "dest": "END"}}
    assert not small({"A": {}, "B": {"timeouts": {"rested": "needs_facts"}}}, arrows, needs_facts)


def test_a_timer_fires_once():
    arrows = {"go": GO, "look": {"trigger": "rested", "source": ["B"]}}
    finding = small({"A": {}, "B": {"timeouts": {"rested": 1}}}, arrows)["waiting"]
    assert [move.event for move in finding.moves] == ["run_requested", "rested"]


def test_somebody_who_was_asked_answers_once_in_one_of_his_ways():
    out = {"trigger": "dug_out", "source": ["B"], "dest": "END"}
    arrows = {"go": GO, "out": out, "up": {"trigger": "gave_up", "source": ["B"]}}
    finding = small({"A": {}, "B": {"on_enter": ["dig"]}}, arrows, dig)["waiting"]
    assert [move.event for move in finding.moves] == ["run_requested", "gave_up"]


def test_an_action_may_fail_and_the_rest_is_skipped():
    """``dig`` is never asked when ``stop_workers`` before it fails."""
    arrows = {
        "go": GO,
        "out": {"trigger": "dug_out", "source": ["B"], "dest": "END"},
        "up": {"trigger": "gave_up", "source": ["B"], "dest": "END"},
        "stopped": {"trigger": "workers_stopped", "source": ["B"]},
        "stuck": {"trigger": "workers_stuck", "source": ["B"]},
    }
    states = {"A": {}, "B": {"on_enter": ["stop_workers", "dig"]}}
    assert not small(states, arrows, dig)
    finding = small(states, arrows, dig, failures={})["waiting"]
    assert "stop_workers" in [move.failed for move in finding.moves]


def test_a_start_is_not_answered_any_more_once_the_workers_are_stopped():
    arrows = {
        "go": GO,
        "up": {"trigger": "workers_started", "source": ["B", "C"], "dest": "END"},
        "bad": {"trigger": "worker_exited", "source": ["B"], "dest": "END"},
        "down": {"trigger": "workers_stopped", "source": ["B"], "dest": "C"},
        "stuck": {"trigger": "workers_stuck", "source": ["B"], "dest": "END"},
    }
    states = {"A": {}, "B": {"on_enter": ["start_workers", "stop_workers"], "ignores": []}, "C": {}}
    states["B"]["ignores"] = ["membership_changed", "signal_received"]
    finding = small(states, arrows)["waiting"]
    assert finding.what == "C waits for nothing"


def test_a_command_ends_in_one_of_two_ways():
    command = {"run_command": {"argv": ["true"]}}
    arrows = {"go": GO, "done": {"trigger": "command_finished", "source": ["B"], "dest": "END"}}
    finding = small({"A": {}, "B": {"on_enter": [command]}}, arrows)["waiting"]
    assert [move.event for move in finding.moves] == ["run_requested", "command_failed"]

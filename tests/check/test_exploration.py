"""Everything that can happen: proofs for what we ship, counter-examples for what is broken.

``removals.txt`` says for each arrow of each shipped machine what breaks when it is removed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastic_fsm.binding import bind
from elastic_fsm.checks import check
from elastic_fsm.config import compose
from elastic_fsm.exploration import CLAIMS, Move, Workers, explore
from elastic_fsm.exploration.search import _Explorer
from elastic_fsm.plugins import rules_for
from elastic_fsm.reading import read_machine
from elastic_fsm.registry import action, condition, delay
from elastic_fsm.scenario.counterexample import as_scenario
from elastic_fsm.scenario.exit_codes import exit_codes
from elastic_fsm.scenario.playing import play
from elastic_fsm.scenario.script import parse_script
from elastic_fsm.testing import settings_for

SHIPPED = ("coarse", "elastic", "fail_fast")
REMOVALS = Path(__file__).parent / "removals.txt"


def bound(values):
    registry = rules_for(values["plugins"])
    spec, problems = read_machine(values["machine"])
    rules, unbound = bind(spec, registry, values)
    return spec, rules, problems + unbound + check(spec, rules, registry.answers())


def look_at(values):
    """The whole exploration of a configuration's machine."""
    spec, rules, _ = bound(values)
    return explore(spec, rules, values["stop"]["signals"])


def broken(values):
    """The claims that do not hold, each with its finding."""
    return look_at(values).findings


TICK = {"tick": {"trigger": "tick", "source": ["BACKOFF"], "dest": "same"}}


def changed(*, without=(), restart=None, spec=None, **machine):
    values = settings_for("elastic", machine=machine, restart=restart or {}, spec=spec or {})
    for name in without:
        remove(name, values)
    return values


def remove(name, values):
    """With those that are like it, which would be like nothing then."""
    arrows = values["machine"]["transitions"]
    for like in [n for n in arrows if name in (n, arrows[n].get("like"))]:
        del arrows[like]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_claim_holds_for_what_we_ship(name):
    result = look_at(settings_for(name))
    assert bound(settings_for(name))[2] == []
    assert (result.findings, result.complete, result.cut_off) == ({}, True, {})
    assert 100 < result.configurations < 2000


@pytest.mark.parametrize("name", SHIPPED)
def test_every_transition_is_met(name):
    """Else the proof would say nothing about it."""
    values = settings_for(name)
    assert look_at(values).taken == set(values["machine"]["transitions"])


def test_what_each_removed_arrow_breaks():
    """After a change REWRITE=1 writes the file anew; keep only what you can explain."""
    lines = []
    for name in SHIPPED:
        for transition in settings_for(name)["machine"]["transitions"]:
            values = settings_for(name)
            remove(transition, values)
            _, _, problems = bound(values)
            lines.append(f"{name} without {transition}: {len(problems)} problems of the checks")
            findings = broken(values).values()
            lines += [f"    {f.claim}: {f.what}, after {len(f.moves)} moves" for f in findings]
    if os.environ.get("REWRITE"):
        REMOVALS.write_text("\n".join(lines) + "\n")
    assert lines == REMOVALS.read_text().splitlines()


# -- each claim can be broken ----------------------------------------------------------------------

BREAKS = {
    "final": changed(transitions={"settled": {"dest": "SETTLING"}}),
    "signals": changed(states={"HEALTHY": {"ignores": ["signal_received"]}}),
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
    assert finding.moves


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


# -- what each claim means -------------------------------------------------------------------------

QUIET = ["worker_exited", "membership_changed"]


def findings_of(**machine):
    return {claim: finding.what for claim, finding in broken(changed(**machine)).items()}


@pytest.mark.parametrize("before", [[], ["note_membership_restart"]])
def test_a_restart_after_a_failure_is_spent(before):
    finding = broken(changed(transitions={"again": {"before": before}}))["budget"]
    assert finding.what == "STARTING starts workers again after a failure, and no restart was spent"
    way = [move.transition for move in finding.moves]
    assert way == ["begin", "joined", "worker_lost", "restart", "again", "joined"]


def test_a_restart_as_nodes_change_is_free_noted_or_not():
    assert findings_of(transitions={"reformed": {"before": []}}) == {}
    lost = {"trigger": "membership_changed", "source": ["UNHEALTHY"], "dest": "REFORMING"}
    late = {"UNHEALTHY": {"ignores": ["worker_exited"]}}
    assert findings_of(states=late, transitions={"node_lost": lost}) == {}


def test_a_worker_that_cannot_be_started_has_failed():
    spec, rules, _ = bound(settings_for("elastic"))
    explorer = _Explorer(spec, rules, [])
    explorer.run()
    unstarted = [
        (here, outcome.after)
        for here, outcomes in explorer.outcomes.items()
        for outcome in outcomes
        if outcome.move.data.get("reason") == "cannot be started"
    ]
    assert unstarted
    for here, after in unstarted:
        assert after.owes == (here.owes or "stop_workers" not in here.asked)


def test_no_timer_is_faster_than_an_answer():
    """SETTLING is entered again with each answer, so that its timer never fires."""
    finding = broken(BREAKS["final"])["final"]
    assert finding.what == "no final state can be reached: it goes round in SETTLING"
    assert [move.transition for move in finding.moves[-2:]] == ["early_finish", "settled"]


@pytest.mark.parametrize("budget", [1, 4])
def test_of_two_timers_with_our_own_delay_the_first_declared_comes_first(budget):
    """They are equal, however long it is; a plugin's delay may be another one each time."""
    values = changed(
        restart={"delay": "1s", "factor": 2},
        states={"BACKOFF": {"timeouts": {"tick": "restart_delay"}}},
        transitions=TICK,
        spec={"max_restarts": budget},
    )
    assert "final" not in broken(values)


def test_no_timer_comes_before_the_run_or_a_stop_of_nobody():
    """Both are answered before any time passes."""
    overtakes = {"overtakes": {"trigger": "tick", "source": ["INIT", "STOPPING"], "dest": "same"}}
    timed = {name: {"timeouts": {"tick": "0s"}} for name in ("INIT", "STOPPING")}
    explorer = _Explorer(*bound(changed(states=timed, transitions=overtakes))[:2], ["SIGTERM"])
    taken = explorer.run().taken
    early = [
        here
        for here, outcomes in explorer.outcomes.items()
        if any(outcome.move.event == "tick" for outcome in outcomes)
    ]
    assert "overtakes" in taken
    assert all(here.workers is not Workers.NONE or not here.asked for here in early)


@pytest.mark.parametrize(("tick", "ends"), [("5s", False), ("2h", True)])
def test_no_timer_is_faster_than_a_shorter_one(tick, ends):
    arrows = {
        "go": GO,
        "again": {"trigger": "tick", "source": ["B"], "dest": "same"},
        "done": {"trigger": "over", "source": ["B"], "dest": "END"},
    }
    findings = small({"A": {}, "B": {"timeouts": {"tick": tick, "over": "1h"}}}, arrows)
    assert ("final" not in findings) == ends


@delay
def some_time(facts, settings):
    return 7


@pytest.mark.parametrize("first", ["tick", "over"])
def test_a_delay_of_a_plugin_may_take_any_time(first):
    """Whichever timer comes first for it, the end must be reached; so also with both of them."""
    ticks = {"trigger": "tick", "source": ["B"], "dest": "same"}
    done = {"trigger": "over", "source": ["B"], "dest": "END"}
    timeouts = {"tick": "5s", "over": "5s"} | {first: "some_time"}
    arrows = {"go": GO, "again": ticks, "done": done}
    found = small({"A": {}, "B": {"timeouts": timeouts}}, arrows, some_time)["final"]
    assert found.what == "no final state can be reached: it goes round in B"
    stays = {**arrows, "again": {"trigger": "tick", "source": ["B"]}}
    assert not small({"A": {}, "B": {"timeouts": timeouts}}, stays, some_time)


@pytest.mark.parametrize(
    ("first", "ends"), [({"tick": "5s", "over": "5s"}, False), ({"over": 5, "tick": 5}, True)]
)
def test_of_timers_that_are_equal_the_first_declared_comes_first(first, ends):
    ticks = {"trigger": "tick", "source": ["B"], "dest": "same"}
    done = {"trigger": "over", "source": ["B"], "dest": "END"}
    arrows = {"go": GO, "again": ticks, "done": done}
    assert ("final" not in small({"A": {}, "B": {"timeouts": first}}, arrows)) == ends


@pytest.mark.parametrize(
    ("budget", "restart", "ends"),
    [
        (5, {"delay": 0}, True),
        (5, {"delay": "2s"}, False),
        (1, {"delay": "500ms", "factor": 2.0}, True),
        (2, {"delay": "500ms", "factor": 2.0}, False),
        (5, {"delay": "500ms", "factor": 2.0, "max_delay": "900ms"}, True),
    ],
)
def test_our_own_delay_takes_what_the_settings_say(budget, restart, ends):
    """Of a second and more ``tick`` comes first, and BACKOFF is entered for ever."""
    values = changed(
        restart=restart,
        states={"BACKOFF": {"timeouts": {"tick": "1s"}}},
        transitions=TICK,
        spec={"max_restarts": budget},
    )
    assert ("final" not in broken(values)) == ends


def test_a_timer_does_not_fire_before_a_shorter_one():
    """``never`` is in nobody's way: it is not armed."""
    early = {"trigger": "early", "source": ["B"], "dest": "END"}
    late = {"trigger": "late", "source": ["B"], "dest": "C"}
    arrows = {"go": GO, "early": early, "late": late}
    states = {"A": {}, "B": {"timeouts": {"late": "2s", "early": "1s"}}, "C": {}}
    assert not small(states, arrows)
    states["B"]["timeouts"]["early"] = "never"
    assert small(states, arrows, never)["waiting"].what == "C waits for nothing"


def test_to_try_again_for_ever_is_no_fault_while_it_may_succeed():
    """Each try is answered at once, and one of them well."""
    out = {"trigger": "dug_out", "source": ["B"], "dest": "END"}
    again = {"trigger": "gave_up", "source": ["B"], "dest": "same"}
    assert not small({"A": {}, "B": {"on_enter": ["dig"]}}, {"go": GO, "a": again, "b": out}, dig)


def test_help_from_outside_is_not_counted_upon():
    out = {"trigger": "signal_received", "source": ["B"], "dest": "END"}
    more = {"trigger": "tick", "source": ["B"], "dest": "same"}
    states = {"A": {}, "B": {"timeouts": {"tick": "5s"}, "ignores": QUIET}}
    assert list(small(states, {"go": GO, "out": out, "more": more})) == ["final"]


@pytest.mark.parametrize("state", ["HEALTHY", "STANDBY"])
def test_a_state_that_is_deaf_to_stop_signals(state):
    found = findings_of(
        states={state: {"ignores": ["signal_received", *QUIET[state == "HEALTHY" :]]}}
    )
    assert found["signals"] == f"SIGTERM does not end the run: in {state} nothing more has to come"


def test_a_state_that_is_left_anyway_may_be_deaf():
    """The signal is repeated where nothing else comes, and there it is heard."""
    states = {name: {"ignores": ["signal_received", *QUIET]} for name in ("BACKOFF", "DOUBTING")}
    assert findings_of(states=states) == {}


def test_a_deaf_state_that_only_other_nodes_end():
    timed = {"SETTLING": {"ignores": ["signal_received", *QUIET]}}
    assert findings_of(states=timed) == {}
    timed["SETTLING"]["timeouts"] = {"barrier_overdue": None}
    assert set(findings_of(states=timed)) == {"signals"}


def draining(**more):
    lost = {"conditions": ["worker_failed"], "dest": "UNHEALTHY"}
    return changed(
        states={"DRAINING": {"on_enter": ["signal_workers"], "ignores": ["membership_changed"]}},
        transitions={
            "drain": {
                "trigger": "signal_received",
                "source": ["HEALTHY"],
                "dest": "DRAINING",
                "conditions": [{"signal_in": ["SIGTERM"]}],
            },
            "drained": {
                "trigger": "worker_exited",
                "source": ["DRAINING"],
                "dest": "SETTLING",
                "conditions": ["all_succeeded"],
            },
            "drain_failed": {"trigger": "worker_exited", "source": ["DRAINING"], **lost},
            "draining": {"trigger": "worker_exited", "source": ["DRAINING"]},
            **more,
        },
    )


def test_workers_may_take_their_time_until_the_signal_comes_again():
    assert broken(draining()) == {}
    deaf = {"trigger": "signal_received", "source": ["DRAINING"]}
    finding = broken(draining(deaf=deaf))["signals"]
    assert finding.what == "SIGTERM does not end the run: in DRAINING nothing more has to come"
    assert finding.moves[-1].transition == "drain"


def test_a_signal_that_is_heard_only_after_a_while_is_repeated_for_so_long():
    """Two that come at once are one stop."""
    soon = {
        "trigger": "signal_received",
        "source": ["DRAINING"],
        "unless": [{"in_state_for": "1s"}],
    }
    assert broken(draining(same_again=soon)) == {}


def test_after_a_stop_signal_the_run_must_not_go_round():
    states = {"BACKOFF": {"ignores": ["signal_received", *QUIET], "timeouts": {"nap": "5s"}}}
    nap = {"trigger": "nap", "source": ["BACKOFF"], "dest": "same"}
    found = broken(changed(restart={"delay": "6s"}, states=states, transitions={"nap": nap}))
    assert found["signals"].what == "SIGTERM does not end the run: it goes round in BACKOFF"


# -- a counter-example is a scenario ---------------------------------------------------------------


def after_a_failure(timeouts=None, **guards):
    """In HEALTHY workers are started while others run, but only so long after something."""
    arrow = {"trigger": "membership_changed", "source": ["HEALTHY"], "dest": "STARTING"}
    ticks = {"trigger": "tick", "source": ["HEALTHY"]}
    return changed(
        states={"HEALTHY": {"timeouts": timeouts or {}}},
        transitions={
            "hasty": {**arrow, "priority": 1, **guards},
            **({"tick": ticks} if timeouts else {}),
        },
    )


def lost(source, *conditions, on="worker_exited", **more):
    """When workers end in some way, the machine comes to a state in which it stays."""
    arrow = {"trigger": on, "source": [source], "dest": "LOST", "priority": 3}
    states = {"LOST": {"ignores": QUIET}}
    return changed(
        states=states, transitions={"lost": {**arrow, "conditions": list(conditions), **more}}
    )


def insisting(after_so_long, dest, **more):
    """A stop that is not answered in time leads somewhere else."""
    arrow = {"trigger": "insist", "source": ["STOPPING"], "dest": dest, **more}
    timed = {"STOPPING": {"timeouts": {"insist": after_so_long}}}
    return changed(states=timed, transitions={"insist": arrow})


STOPPED = {"on": "workers_stopped"}
PLAYED = {
    "early_finish": (changed(without=["early_finish"]), "waiting"),
    "all_done": (changed(without=["all_done"]), "waiting"),
    "worker_lost": (changed(without=["worker_lost"]), "waiting"),
    **{claim: (BREAKS[claim], claim) for claim in ("budget", "groups", "final", "signals")},
    "free": (changed(transitions={"again": {"before": []}}), "budget"),
    "first": (changed(transitions={"stopped": {"before": ["spend_restart"]}}), "budget"),
    "error_first": (changed(transitions={"aborted": {"dest": "HEALTHY"}}), "waiting"),
    "while_it_stops": (
        changed(
            transitions={
                "prodded": {
                    "trigger": "signal_received",
                    "source": ["UNHEALTHY"],
                    "dest": "INIT",
                    "conditions": [{"signal_in": ["SIGUSR1"]}],
                }
            }
        ),
        "stops",
    ),
    "stuck": (changed(transitions={"unkillable": {"dest": "ABORTING"}}), "signals"),
    "unstarted": (changed(transitions={"unkillable": {"before": ["start_workers"]}}), "groups"),
    "later": (after_a_failure(conditions=[{"in_state_for": "10s"}]), "groups"),
    "earlier": (after_a_failure(unless=[{"in_state_for": "stop.window"}]), "groups"),
    "later_and_before_a_timer": (
        after_a_failure(conditions=[{"in_state_for": "20s"}], timeouts={"tick": "30s"}),
        "groups",
    ),
    "a_slow_answer": (
        changed(
            transitions={
                "late": {
                    "trigger": "workers_stopped",
                    "source": ["UNHEALTHY"],
                    "dest": "STARTING",
                    "conditions": [{"in_state_for": "7s"}],
                    "priority": 1,
                }
            }
        ),
        "groups",
    ),
    "a_code": (lost("HEALTHY", "worker_failed", {"exit_code_in": [75]}), "waiting"),
    "another_code": (
        lost("HEALTHY", "worker_failed", unless=[{"exit_code_in": [1]}, {"exit_code_in": [2]}]),
        "waiting",
    ),
    "a_code_in_the_start": (
        lost("UNHEALTHY", {"exit_code_in": ["SIGKILL", 75]}, **STOPPED),
        "waiting",
    ),
    "a_code_and_no_signal": (
        lost(
            "UNHEALTHY", {"exit_code_in": [143, 75]}, **STOPPED, unless=[{"ended_by": ["SIGTERM"]}]
        ),
        "waiting",
    ),
    "unstarted_by_its_code": (lost("UNHEALTHY", {"exit_code_in": [127]}, **STOPPED), "waiting"),
    "two_at_once": (lost("UNHEALTHY", "worker_failed", {"exit_code_in": [75]}), "waiting"),
    "a_signal": (changed(transitions={"doubt_restart": {"dest": "JOINING"}}), "budget"),
    "a_slow_restart": (
        changed(
            restart={"delay": "5s"},
            states={"BACKOFF": {"timeouts": {"tick": "1s"}}},
            transitions=TICK,
        ),
        "final",
    ),
    "a_stop_that_is_insisted_on": (insisting("10s", "same", after=["kill_workers"]), "signals"),
    "a_stop_longer_than_its_grace": (insisting("60s", "BACKOFF"), "groups"),
    "the_second_delay": (
        changed(
            restart={"delay": "10s", "factor": 3.0},
            states={"RESTING": {"ignores": QUIET, "timeouts": {"rested": "1h"}}},
            transitions={
                "worker_lost": {"before": ["spend_restart"]},
                "start_stuck": {"before": ["spend_restart"]},
                "again": {"before": [], "dest": "RESTING"},
                "rested": {"trigger": "rested", "source": ["RESTING"], "dest": "BACKOFF"},
                "prodded": {
                    "trigger": "signal_received",
                    "source": ["RESTING"],
                    "dest": "STARTING",
                },
            },
        ),
        "groups",
    ),
}


@pytest.mark.parametrize(("values", "claim"), PLAYED.values(), ids=PLAYED)
def test_played_it_goes_that_way(values, claim):
    """The real machine, agent and loop do what the exploration says they can."""
    spec, rules, _ = bound(values)
    finding = broken(values)[claim]
    end = "" if claim == "waiting" else "end at 1h\n"  # some of these would go on for ever
    script = parse_script(as_scenario(finding, spec, rules, grace=25.0) + end)
    given = {name: values[name] for name in ("machine", "restart")}
    values = compose(script.overrides).values | given
    run = play(script, values, rules_for([]))
    expected = [move.transition for move in finding.moves if move.transition]
    assert [transition for transition, _ in run.run.path][: len(expected)] == expected
    if claim == "waiting":
        assert run.ending == "for ever: nothing else can happen"


UNPLAYED = {
    "the run does not listen to SIGUSR1": (
        changed(transitions={"other_signal": {"dest": "INIT"}}),
        "stops",
    ),
    "no ends of workers fit these conditions": (
        lost("UNHEALTHY", {"exit_code_in": [3]}, {"exit_code_in": [4]}, **STOPPED),
        "waiting",
    ),
    "its actions call methods of a SimpleElasticAgent": (
        settings_for(
            "coarse",
            machine={"states": {"SETTLING": {"ignores": [*QUIET, "signal_received"]}}}
            | {"transitions": {"settled": {"dest": "SETTLING"}}},
        ),
        "final",
    ),
    "with a longer stop.grace a timer would come later": (
        insisting("stop.grace", "BACKOFF"),
        "groups",
    ),
    "the agent starts no workers twice in one attempt": (
        changed(
            states={
                "AGAIN": {"on_enter": ["start_workers"], "ignores": QUIET},
                "LOST": {"ignores": QUIET},
            },
            transitions={
                "hasty": {
                    "trigger": "membership_changed",
                    "source": ["HEALTHY"],
                    "dest": "AGAIN",
                    "priority": 1,
                },
                "lost": {"trigger": "workers_started", "source": ["AGAIN"], "dest": "LOST"},
            },
        ),
        "waiting",
    ),
    "in BACKOFF backoff_elapsed comes before tick": (
        changed(
            spec={"max_restarts": 5},
            restart={"delay": "1s", "factor": 2.0},
            states={"BACKOFF": {"timeouts": {"tick": "3s"}}},
            transitions=TICK,
        ),
        "final",
    ),
}


@pytest.mark.parametrize("why", UNPLAYED)
def test_a_way_that_cannot_be_played_says_so(why):
    values, claim = UNPLAYED[why]
    spec, rules, _ = bound(values)
    finding = broken(values)[claim]
    lines = as_scenario(finding, spec, rules, grace=25.0).splitlines()
    assert lines[:2] == [f"# {finding.what}", f"# this way cannot be played: {why}"]
    assert [line[:2] for line in lines] == ["# "] * (2 + len(finding.moves))


def test_each_attempt_has_ends_of_its_own():
    """In each it is the first that counts."""
    _, rules, _ = bound(lost("HEALTHY", {"exit_code_in": [75]}, unless=[{"exit_code_in": [1]}]))

    def ends(*chosen):
        told = [tuple(choice.items()) for choice in chosen]
        moves = [Move("worker_exited", {"exit_code": 1}, chosen=choice) for choice in told]
        return exit_codes(moves, rules, joins={0})

    both = {"exit_code_in(75)": False, "exit_code_in(1)": False}
    assert ends({"exit_code_in(75)": True}, {}, both) == {0: 75, 1: 2, 2: 1}
    assert ends({}, {"exit_code_in(75)": True}, {"exit_code_in(75)": False}) is None


def test_what_follows_by_itself_is_a_comment():
    spec, rules, _ = bound(BREAKS["notices"])
    text = as_scenario(broken(BREAKS["notices"])["notices"], spec, rules)
    assert text.splitlines() == [
        "# membership_changed comes in STARTING, where nothing is said about it",
        "workers 2",
        "start takes 2s",
        "                          # run_requested: begin -> JOINING",
        "                          # rendezvous_completed: joined -> STARTING",
        "at 1s membership changes  # membership_changed: nothing happens",
    ]


def test_a_start_that_was_answered_is_over():
    values = changed(transitions={"again": {"before": []}})
    spec, rules, _ = bound(values)
    text = as_scenario(broken(values)["budget"], spec, rules)
    assert text.splitlines()[1:5] == [
        "workers 2",
        "max_restarts 1",
        "worker 1 cannot start",
        "  # run_requested: begin -> JOINING",
    ]


def test_every_counter_example_can_be_read():
    lines = settings_for("elastic")["machine"]["transitions"]
    late = changed(transitions={"all_done": {"source": ["UNHEALTHY"]}})  # more than a minute
    for values in (late, *BREAKS.values(), *(changed(without=[line]) for line in lines)):
        spec, rules, _ = bound(values)
        for finding in broken(values).values():
            assert parse_script(as_scenario(finding, spec, rules))


def test_a_machine_that_is_too_big_is_not_said_to_be_sound(monkeypatch):
    monkeypatch.setattr("elastic_fsm.exploration.search._MOST_CONFIGURATIONS", 100)
    result = look_at(settings_for("elastic"))
    assert (result.complete, result.findings) == (False, {})
    assert {result.verdict(claim) for claim in CLAIMS} == {"unknown"}


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
    return explore(spec, bound_rules, []).findings


GO = {"trigger": "run_requested", "source": ["A"], "dest": "B"}


@condition
def sunny(event, facts):
    return True


@delay(may_be_never=True)
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


def test_a_delay_that_may_be_never_is_both():
    @delay(may_be_never=True)
    def sometimes(facts, settings):
        return 5

    @delay
    def always(facts, settings):
        return 5

    arrows = {"go": GO, "done": {"trigger": "rested", "source": ["B"], "dest": "END"}}
    states = {"A": {}, "B": {"timeouts": {"rested": "sometimes"}}}
    finding = small(states, arrows, sometimes)["waiting"]
    assert [move.event for move in finding.moves] == ["run_requested"]
    states["B"]["timeouts"]["rested"] = "always"
    assert not small(states, arrows, always)


def test_a_delay_that_raises_leaves_its_timer_out():
    arrows = {"go": GO, "done": {"trigger": "rested", "source": ["B"], "dest": "END"}}
    states = {"A": {}, "B": {"timeouts": {"rested": "needs_facts"}}}
    finding = small(states, arrows, needs_facts, failures={})["waiting"]
    assert [move.failed for move in finding.moves] == ["needs_facts", ""]


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

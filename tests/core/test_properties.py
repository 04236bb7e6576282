"""Whatever happens, in whatever order: what the real agent keeps, and that journals replay.

Hypothesis invents the script: exits, signals, nodes that come and go, stray answers, slow starts,
workers that do not listen or cannot be killed. The agent is the real one, with a scripted
launcher and a clock that jumps.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenarios import SCENARIOS

from elastic_fsm.events import CATALOGUE, Event
from elastic_fsm.facts import Facts
from elastic_fsm.machine import Machine
from elastic_fsm.registry import action
from elastic_fsm.testing import OnStop, Scenario

WORKERS = 3
LAST_RESORT = 5000.0

# Few distinct times, so that things often happen at the same moment or within stop.window.
times = st.one_of(st.sampled_from([0.0, 1.0, 1.05, 2.0, 3.0]), st.floats(0.0, 900.0))
ranks = st.integers(0, WORKERS - 1)
exits = st.tuples(st.just("exits"), times, ranks, st.sampled_from([0, 1, 3, -9, -15, 143]))
signals = st.tuples(st.just("signal"), times, st.sampled_from(["SIGTERM", "SIGINT", "SIGUSR1"]))
changes = st.tuples(st.just("membership_changed"), times)
answers = st.tuples(
    st.just("answer"),
    times,
    st.sampled_from([
        "rendezvous_completed", "spare_assigned", "run_finished", "rendezvous_failed",
        "barrier_passed",
    ]),
)  # fmt: skip
stray = st.tuples(
    st.just("stray"),
    times,
    st.sampled_from([
        ("workers_started", None), ("workers_started", 0), ("workers_started", 1),
        ("workers_stopped", 99), ("run_requested", None), ("nobody_knows", 0),
    ]),
)  # fmt: skip
conducts = st.builds(
    OnStop,
    takes=st.sampled_from([0.0, 0.5, 100.0, None]),
    exit_code=st.sampled_from([None, 0, 7]),
    survives_kill=st.sampled_from([False, False, False, True]),
)
worlds = st.fixed_dictionaries(
    {
        "machine": st.sampled_from(["elastic", "fail_fast"]),
        "max_restarts": st.integers(0, 3),
        "start_takes": st.sampled_from([0.0, 0.0, 0.5, None]),
        "answering": st.sampled_from([True, True, False]),
        "on_stop": st.dictionaries(ranks, conducts),
        "cannot_start": st.sampled_from([{}, {}, {1: "no such file"}]),
        "bursts": st.lists(st.integers(1, 12), max_size=2),
        "script": st.lists(st.one_of(exits, exits, signals, changes, answers, stray), max_size=12),
    }
)


class Bursts:
    """An action that raises at chosen calls, put where every machine passes often."""

    def __init__(self, when):
        self.when, self.calls = when, 0

        @action
        def burst(agent, event):
            self.calls += 1
            if self.calls in self.when:
                raise OSError("burst")

        self.burst = burst


def scenario_of(world, journal):
    states = {
        name: {"on_enter": ["burst", action]}
        for name, action in (
            ("JOINING", "join_rendezvous"), ("STARTING", "start_workers"),
            ("UNHEALTHY", "stop_workers"), ("STOPPING", "stop_workers"),
            ("ABORTING", "stop_workers"), ("SETTLING", "enter_exit_barrier"),
        )
    }  # fmt: skip
    run = Scenario(
        world["machine"],
        workers=WORKERS,
        max_restarts=world["max_restarts"],
        plugins=[Bursts(world["bursts"])],
        journal=journal,
        machine={"states": states},
    )
    run.launcher.start_takes = world["start_takes"]
    run.launcher.on_stop = dict(world["on_stop"])
    run.launcher.cannot_start = dict(world["cannot_start"])
    run.rendezvous.answering = world["answering"]
    for entry in world["script"]:
        write(run, *entry)
    # Sooner or later somebody ends it, and insists.
    run.signal("SIGTERM", at=LAST_RESORT)
    return run


def write(run, kind, at, *details):
    if kind == "exits":
        run.exits(details[0], code=details[1], at=at)
    elif kind == "signal":
        run.signal(details[0], at=at)
    elif kind == "membership_changed":
        run.post("membership_changed", at=at)
    elif kind == "answer" and details[0] == "rendezvous_completed":
        run.at(at, run.rendezvous.complete)
    elif kind == "answer":
        run.at(at, lambda: run.rendezvous.answer(details[0], reason="none"))
    else:
        name, attempt = details[0]
        run.at(at, run.loop.post, Event(name, {"pids": []}, attempt=attempt))


def steps_of(records):
    return [r for r in records if r.get("outcome") == "step"]


def check_invariants(run, result):
    final = run.agent.machine.state
    assert final.final or run.agent.error
    assert 0 <= result.exit_code <= 255
    # The budget.
    starts = [call for call in run.launcher.calls if call[0] == "start"]
    assert run.agent.restarts_used <= run.agent.group.spec.max_restarts
    assert len(starts) <= 1 + run.agent.restarts_used + run.agent.membership_restarts
    assert len(starts) == len(run.agent.history)
    # A rank has one fate at most, and failures are causes.
    assert not set(result.return_values) & set(result.failures)
    assert all(failure.exitcode != 0 for failure in result.failures.values())
    # Nobody is left.
    assert run.launcher.alive == {}
    assert run.launcher.calls[-1] == ("close",)


def check_stops(records):
    """No more answers than stops that were asked for, attempt by attempt."""
    asked = Counter(
        r["facts"]["attempt"] for r in steps_of(records) if "stop_workers" in r["actions"]
    )
    answered = Counter(
        r["event"]["attempt"]
        for r in records
        if r["event"]["name"] in ("workers_stopped", "workers_stuck") and r["outcome"] != "stale"
    )
    assert answered <= asked


def check_journal(path, run):
    _, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(lines) == len(run.records)
    events = [line for line in lines if "event" in line]
    state = "INIT"
    for line in steps_of(events):
        assert line["source"] == state
        state = line["dest"]
    assert state == run.agent.machine.state.name
    return events


def replayed(events, machine):
    """What a fresh machine makes of the events and facts of a journal."""
    fresh = Machine(machine.spec, machine.rules)
    for line in events:
        if line["outcome"] in ("stale", "failed"):
            continue
        facts = dict(line["facts"])
        facts["exit_codes"] = {int(rank): code for rank, code in facts["exit_codes"].items()}
        step = fresh.step(Event(line["event"]["name"], line["event"]["data"]), Facts(**facts))
        yield line.get("transition"), getattr(step, "transition", None)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(world=worlds)
def test_whatever_happens(world, tmp_path):
    path = tmp_path / "journal"
    path.unlink(missing_ok=True)
    run = scenario_of(world, path)
    result = run.play()
    check_invariants(run, result)
    check_stops([r for r in run.records if "event" in r])
    events = check_journal(path, run)
    assert all(journalled == again for journalled, again in replayed(events, run.agent.machine))


@pytest.mark.parametrize("story", SCENARIOS, ids=str)
def test_journals_of_the_stories_replay(story):
    run, _, _ = story.play()
    lines = json.loads(json.dumps([r for r in run.records if "event" in r], default=str))
    pairs = list(replayed(lines, run.agent.machine))
    assert pairs
    assert all(journalled == again for journalled, again in pairs)


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.sampled_from([*CATALOGUE, "backoff_elapsed", "doubt_elapsed", "x"])),
    left=st.integers(0, 2),
    name=st.sampled_from(["elastic", "fail_fast"]),
)
def test_a_machine_is_a_function_of_its_events(names, left, name):
    """Two machines that see the same take the same steps, and none leaves a final state."""
    run = Scenario(name)
    run.loop.close()
    machine = run.agent.machine
    twins = [Machine(machine.spec, machine.rules) for _ in range(2)]
    data = {"exit_code": 1, "signal": "SIGTERM"}
    for event in names:
        was_final = twins[0].state.final
        first, second = (
            twin.step(Event(event, data), Facts(restarts_left=left, exit_codes={0: -15}))
            for twin in twins
        )
        assert str(first) == str(second)
        assert not was_final or not hasattr(first, "transition")

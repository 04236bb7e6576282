"""The exported machines take the same steps as ours, in the libraries that they are made for.

Each story of the core's tests is played by the real agent; the events that reached its machine
are then fed to the export, whose conditions answer what ours answered. A condition that ours did
not ask for has no answer, so an export that asks in another order fails, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import transitions
from graph_machines import spec_of
from scenarios import SCENARIOS

from elastic_fsm.graph.extract import diagram_of
from elastic_fsm.graph.library import method_names, to_library
from elastic_fsm.graph.scxml import to_scxml
from elastic_fsm.graph.xstate import to_xstate

REPLAY = Path(__file__).parent / "xstate" / "replay.mjs"


@dataclass
class Step:
    """What happened to a machine, and what it did."""

    event: str
    before: str
    state: str
    actions: list
    answers: dict
    """By the text of a condition, what it said."""
    verdicts: dict
    """By the name of a transition, whether all its conditions that were asked held."""


def step_of(record, state):
    answers, verdicts = {}, defaultdict(lambda: True)
    for transition, text, held in record["verdicts"]:
        negated = text.startswith("unless ")
        answers[text.removeprefix("unless ")] = held is not negated
        verdicts[transition] &= held
    taken = record["outcome"] == "step"
    actions = [text.partition("(")[0] for text in record["actions"]] if taken else []
    after = record["dest"] if taken else state
    return Step(record["event"]["name"], state, after, actions, answers, dict(verdicts))


def steps_of(story):
    """Of a story: its diagram, and the steps of its machine."""
    run = story.played().run
    diagram = diagram_of(run.agent.machine.spec, story.machine)
    steps, state = [], diagram.initial
    for record in run.records:
        if record.get("outcome") in ("step", "ignored"):
            steps.append(step_of(record, state))
            state = steps[-1].state
    return diagram, steps


# -- XState ------------------------------------------------------------------------------------


def guards_of(step, diagram):
    return {" and ".join(diagram.edges[name].guards): held for name, held in step.verdicts.items()}


def for_xstate(diagram, steps):
    def timer(step):
        return step.event in diagram.nodes[step.before].timeouts

    return {
        "config": to_xstate(diagram),
        "steps": [
            {"event": s.event, "guards": guards_of(s, diagram), "timer": timer(s)} for s in steps
        ],
    }


def in_xstate(work):
    node = shutil.which("node")
    if not node or not (REPLAY.parent / "node_modules").is_dir():
        what = "needs node, and `npm ci --prefix tests/graph/xstate`"
        if os.environ.get("CI") == "true":
            pytest.fail(what)
        pytest.skip(what)
    run = subprocess.run([node, REPLAY], input=json.dumps(work), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
def test_xstate_takes_the_same_steps_in_every_story():
    played = [steps_of(story) for story in SCENARIOS]
    answers = in_xstate([for_xstate(*one) for one in played])
    for story, (diagram, steps), answer in zip(SCENARIOS, played, answers, strict=True):
        assert [a["state"] for a in answer] == [s.state for s in steps], story
        for ours, theirs in zip(steps, answer, strict=True):
            assert sorted(theirs["actions"]) == sorted(ours.actions), (story, ours.event)
            assert theirs["done"] == diagram.nodes[ours.state].final


# By hand, so that what no shipped machine has is looked at as well.
QUIRKS = [
    # State, event, answers of conditions, next state, actions in our order.
    ("WAITING", "alarm", {}, "WAITING", []),
    ("WAITING", "signal_received", {}, "WAITING", []),
    ("WAITING", "membership_changed", {}, "WAITING", []),
    ("WAITING", "worker_exited", {"all_succeeded": True}, "WAITING", []),
    ("WAITING", "run_requested", {}, "WORKING", "join_rendezvous start_workers note spend_restart"),
    ("WORKING", "membership_changed", {}, "WORKING", "note note_failures start_workers note"),
    ("WORKING", "signal_received", {"signal_in(SIGTERM)": False}, "WORKING", []),
    (
        "WORKING",
        "worker_exited",
        {"all_succeeded": False, "exit_code_in(75, SIGKILL)": True},
        "WORKING",
        [],
    ),
    (
        "WORKING",
        "worker_exited",
        {"all_succeeded": False, "exit_code_in(75, SIGKILL)": False},
        "RESTING",
        "note_failures",
    ),
    ("RESTING", "worker_exited", {}, "RESTING", []),
    ("RESTING", "membership_changed", {}, "RESTING", []),
    ("RESTING", "alarm", {}, "WORKING", "start_workers note"),
    (
        "WORKING",
        "signal_received",
        {"signal_in(SIGTERM)": True, "worker_failed": True, "restart_allowed": False},
        "LOST",
        "note_failures note_failures",
    ),
]


def quirky_steps():
    diagram = diagram_of(spec_of("quirks"), "quirks")
    spec = spec_of("quirks")
    steps = []
    for state, event, answers, after, actions in QUIRKS:
        verdicts = {}
        for t in spec.candidates(state, event):
            said = [answers.get(str(use)) for use in t.conditions]
            said += [None if str(u) not in answers else not answers[str(u)] for u in t.unless]
            asked = [word for word in said if word is not None]
            if asked:
                verdicts[t.name] = all(asked)
        names = actions.split() if actions else []
        steps.append(Step(event, state, after, names, answers, verdicts))
    return diagram, steps


@pytest.mark.slow
def test_xstate_knows_the_quirks():
    diagram, steps = quirky_steps()
    (answer,) = in_xstate([for_xstate(diagram, steps)])
    assert [a["state"] for a in answer] == [s.state for s in steps]
    assert [sorted(a["actions"]) for a in answer] == [sorted(s.actions) for s in steps]


@pytest.mark.slow
def test_xstate_would_notice_a_difference():
    """The comparison is worth something only if a wrong export fails it."""
    diagram, steps = quirky_steps()
    work = for_xstate(diagram, steps)
    work["config"]["on"]["alarm"][0]["target"] = ".RESTING"
    (answer,) = in_xstate([work])
    assert [a["state"] for a in answer] != [s.state for s in steps]


def test_a_missing_node_is_a_failure_in_ci_and_a_gap_elsewhere(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs node"):
        in_xstate([])
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="needs node"):
        in_xstate([])


# -- transitions -------------------------------------------------------------------------------


class Model:
    """Conditions answer what the step says; actions write down their names."""

    def __init__(self, diagram):
        self.answers, self.done = {}, []
        names = method_names(diagram)
        conditions, actions = uses_of(diagram)
        for text in conditions:
            setattr(self, names[text], lambda event, text=text: self.answers[text])
        for text in actions:
            word = text.partition("(")[0]
            setattr(self, names[text], lambda event, word=word: self.done.append(word))


def uses_of(diagram):
    edges, nodes = diagram.edges.values(), diagram.nodes.values()
    conditions = {str(c) for edge in edges for c in (*edge.conditions, *edge.unless)}
    actions = {a for edge in edges for a in edge.actions}
    actions |= {str(c) for node in nodes for c in (*node.on_enter, *node.on_exit)}
    return conditions, actions


def in_the_library(diagram, steps):
    """The dictionary goes through JSON, as it would from a file."""
    model = Model(diagram)
    transitions.Machine(model, **json.loads(json.dumps(to_library(diagram))))
    found = []
    for step in steps:
        model.answers, model.done = step.answers, []
        # An event that no transition has is not known to the library at all.
        if any(edge.trigger == step.event for edge in diagram.edges.values()):
            model.trigger(step.event)
        found.append((model.state, model.done))
    return found


@pytest.mark.parametrize("story", SCENARIOS, ids=str)
def test_the_library_takes_the_same_steps(story):
    diagram, steps = steps_of(story)
    assert steps
    assert in_the_library(diagram, steps) == [(s.state, s.actions) for s in steps]


def test_the_library_knows_the_quirks():
    diagram, steps = quirky_steps()
    assert in_the_library(diagram, steps) == [(s.state, s.actions) for s in steps]


def test_uses_with_other_parameters_are_other_methods():
    diagram = diagram_of(spec_of("quirks"), "quirks")
    names = method_names(diagram)
    assert names["note(text=again)"] == "note_text_again"
    assert all(name.isidentifier() for name in names.values())
    assert len(set(names.values())) == len(names)


# -- SCXML -------------------------------------------------------------------------------------


def in_scxml(diagram, steps):
    """The states that an interpreter goes through: a state's transitions in the order of the
    document, then those of the state around it."""
    root = ElementTree.fromstring(to_scxml(diagram))
    name = "{http://www.w3.org/2005/07/scxml}"
    (whole,) = root.findall(f"{name}state")
    states = {
        s.get("id"): s for s in [*whole.findall(f"{name}state"), *root.findall(f"{name}final")]
    }
    texts = texts_by_call(diagram)
    state, found = whole.get("initial"), []
    for step in steps:
        around = [states[state], whole] if states[state].tag == f"{name}state" else []
        for transition in (t for one in around for t in one.findall(f"{name}transition")):
            if transition.get("event") == step.event and holds(transition.get("cond"), step, texts):
                state = transition.get("target", state)
                break
        found.append(state)
    return found


def texts_by_call(diagram):
    calls = [c for e in diagram.edges.values() for c in (*e.conditions, *e.unless)]
    return {
        f"{c.name}({'' if c.arguments is None else json.dumps(c.arguments)})": c.text for c in calls
    }


def holds(condition, step, texts):
    for term in condition.split(" && ") if condition else ():
        answer = step.answers[texts[term.removeprefix("!")]]
        if answer is term.startswith("!"):
            return False
    return True


@pytest.mark.parametrize("story", SCENARIOS, ids=str)
def test_scxml_goes_through_the_same_states(story):
    diagram, steps = steps_of(story)
    assert in_scxml(diagram, steps) == [s.state for s in steps]


def test_scxml_knows_the_quirks():
    diagram, steps = quirky_steps()
    assert in_scxml(diagram, steps) == [s.state for s in steps]


@pytest.mark.parametrize(
    ("value", "drawn", "attributes"),
    [
        (30, "30 s", {"delay": "30s"}),
        (2_000_000, "2000000 s", {"delay": "2000000s"}),
        (2e-5, "0.00002 s", {"delay": "0.00002s"}),
        ("30", "30", {"delay": "30s"}),
        ("1.5s", "1.5s", {"delay": "1.5s"}),
        ("500ms", "500ms", {"delay": "0.5s"}),
        ("90 m", "90 m", {"delay": "5400s"}),
        ("stop.window", "stop.window", {"delayexpr": "stop.window"}),
        ("restart_delay", "restart_delay", {"delayexpr": "restart_delay()"}),
    ],
)
def test_a_delay_is_one_that_scxml_knows(value, drawn, attributes):
    spec = spec_of("quirks")
    waiting = spec.states["WAITING"]._replace(timeouts={"alarm": value})
    diagram = diagram_of(replace(spec, states={**spec.states, "WAITING": waiting}))
    assert diagram.nodes["WAITING"].timeouts == {"alarm": drawn}
    (send,) = ElementTree.fromstring(to_scxml(diagram)).iter(
        "{http://www.w3.org/2005/07/scxml}send"
    )
    assert send.attrib == {**attributes, "event": "alarm", "id": "WAITING.alarm"}

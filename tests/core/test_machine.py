"""The machine by itself: which transition is taken, in which order its actions stand."""

from __future__ import annotations

import logging

import pytest

from elastic_fsm.events import Event
from elastic_fsm.facts import Facts
from elastic_fsm.machine import ConditionFailed, Ignored, Verdict
from elastic_fsm.problems import BadInput
from elastic_fsm.reading import read_machine
from elastic_fsm.registry import action, condition

FACTS = Facts()


@action
def one(agent, event):
    raise AssertionError("a machine runs no action")


@action
def two(agent, event): ...


@action
def three(agent, event, size=0): ...


@action
def four(agent, event): ...


@condition
def value(event, facts):
    return event.data["value"]


@condition
def other(event, facts):
    return event.data["other"]


@condition
def at_least(event, facts, low, high=10):
    return low <= event.data["value"] <= high


@condition
def breaks(event, facts):
    raise LookupError("no such thing")


RULES = (one, two, three, four, value, other, at_least, breaks)
END = {"final": True, "exit_code": 0}


@pytest.fixture
def machine(machine_of):
    """States A, B and a final END; ``go`` leads on, whatever the transitions of the test say."""

    def make(transitions, **states):
        frame = {"out": {"trigger": "run_finished", "source": "any", "dest": "END"}}
        base = {"A": None, "B": None, "END": END}
        reach = {"reach": {"trigger": "spare_assigned", "source": "A", "dest": "B"}}
        return machine_of({**base, **states}, {**transitions, **reach, **frame}, *RULES)

    return make


def go(machine, name="run_requested", **data):
    return machine.step(Event(name, data), FACTS)


def names(step):
    return [str(use) for use in step.actions]


def test_actions_stand_in_the_order_before_exit_enter_after(machine):
    m = machine(
        {"go": {"trigger": "run_requested", "source": "A", "dest": "B",
                "before": ["one", {"three": 1}], "after": [{"three": 5}, "one"]}},
        A={"on_exit": ["two"]},
        B={"on_enter": ["four", {"three": {"size": 3}}]},
    )  # fmt: skip
    step = go(m)
    assert names(step) == ["one", "three(1)", "two", "four", "three(size=3)", "three(5)", "one"]
    assert (step.transition, step.trigger, step.source, step.dest) == (
        "go", "run_requested", "A", "B",
    )  # fmt: skip
    assert step.entered
    assert m.state.name == "B"


def test_an_internal_transition_neither_leaves_nor_enters(machine):
    m = machine(
        {"go": {"trigger": "run_requested", "source": "A", "before": "one", "after": "four"}},
        A={"on_exit": ["two"], "on_enter": ["three"]},
    )
    step = go(m)
    assert names(step) == ["one", "four"]
    assert (step.source, step.dest, step.entered) == ("A", "A", False)


@pytest.mark.parametrize("dest", ["same", "=", "A"])
def test_a_transition_to_the_same_state_leaves_and_enters_it(machine, dest):
    m = machine(
        {"go": {"trigger": "run_requested", "source": "A", "dest": dest}},
        A={"on_exit": ["two"], "on_enter": ["three"]},
    )
    step = go(m)
    assert names(step) == ["two", "three"]
    assert (step.source, step.dest, step.entered) == ("A", "A", True)


def test_same_from_any_stays_where_it_is(machine):
    m = machine({"again": {"trigger": "run_requested", "source": "any", "dest": "same"}})
    go(m, "spare_assigned")
    assert go(m).dest == "B"


@pytest.mark.parametrize("everywhere", ["any", "*"])
def test_any_is_every_state_that_is_not_final(machine, everywhere):
    m = machine({"go": {"trigger": "run_requested", "source": everywhere, "dest": "B"}})
    assert go(m).source == "A"
    assert go(m).source == "B"
    go(m, "run_finished")
    assert m.state.name == "END"
    assert go(m) == Ignored("run_requested", "END")
    assert m.state.name == "END"


def test_any_comes_after_what_names_the_state(machine):
    m = machine(
        {
            "general": {"trigger": "run_requested", "source": "any", "dest": "B", "priority": 9},
            "special": {"trigger": "run_requested", "source": "A", "conditions": "value"},
        }
    )
    assert go(m, value=True).transition == "special"
    assert go(m, value=False).transition == "general"


def test_any_beside_a_name_counts_as_the_name(machine):
    m = machine(
        {
            "first": {"trigger": "run_requested", "source": ["any", "A"], "conditions": "value"},
            "second": {"trigger": "run_requested", "source": "A"},
            "third": {"trigger": "run_requested", "source": "B"},
        }
    )
    assert go(m, value=True).transition == "first"
    go(m, "spare_assigned")
    assert go(m, value=True).transition == "third"


def test_the_order_of_the_declaration_decides_unless_a_priority_does(machine):
    def arrows(**priority):
        arrow = {"trigger": "run_requested", "source": "A", "conditions": "value"}
        last = {"last": {"trigger": "run_requested", "source": "A", "priority": -1}}
        names = ("first", "second")
        return last | {name: arrow | {"priority": priority.get(name, 0)} for name in names}

    by_order = machine({k: v for k, v in arrows().items() if k != "second"})
    assert go(by_order, value=True).transition == "first"
    assert go(by_order, value=False).transition == "last"
    distinct = arrows(second=1)
    distinct["second"] = distinct["second"] | {"conditions": "other"}
    by_priority = machine(distinct)
    assert go(by_priority, value=True, other=True).transition == "second"
    assert go(by_priority, value=True, other=False).transition == "first"


def test_what_a_state_ignores_is_not_taken_from_any(machine):
    m = machine(
        {"general": {"trigger": "run_requested", "source": "any", "dest": "same"}},
        A={"ignores": ["worker_exited", "membership_changed", "signal_received", "action_failed",
                       "run_requested"]},
    )  # fmt: skip
    assert go(m) == Ignored("run_requested", "A")
    go(m, "spare_assigned")
    assert go(m).transition == "general"


def test_all_conditions_must_hold_and_none_of_unless(machine):
    m = machine({
        "go": {"trigger": "run_requested", "source": "A", "conditions": ["value", {"at_least": 1}],
               "unless": ["other", {"at_least": {"low": 5, "high": 7}}]},
        "not": {"trigger": "run_requested", "source": "A"},
    })  # fmt: skip
    takes = {
        (number, other): go(m, value=number, other=other).transition
        for number in (0, 1, 5, 7, 8)
        for other in (True, False)
    }
    assert [key for key, name in takes.items() if name == "go"] == [(1, False), (8, False)]


@pytest.mark.parametrize(
    ("answer", "held"), [(2, True), ("x", True), (True, True), (None, False), ([], False)]
)
def test_any_answer_of_a_condition_is_read_as_yes_or_no(machine, answer, held):
    """The library takes True alone for yes where it compares, and truth where it does not."""
    m = machine(
        {
            "yes": {"trigger": "run_requested", "source": "A", "conditions": "value"},
            "no": {"trigger": "run_requested", "source": "A", "unless": "value"},
            "fallback": {"trigger": "run_requested", "source": "A"},
        }
    )
    step = go(m, value=answer)
    assert step.transition == ("yes" if held else "no")
    assert step.verdicts[0] == Verdict("yes", "value", held)


def test_verdicts_tell_what_was_asked_and_nothing_more(machine):
    m = machine({
        "one": {"trigger": "run_requested", "source": "A", "conditions": ["value", "other"]},
        "two": {"trigger": "run_requested", "source": "A", "conditions": [{"at_least": 3}],
                "unless": ["other"]},
        "three": {"trigger": "run_requested", "source": "A"},
    })  # fmt: skip
    assert go(m, value=0, other=0).verdicts == (
        Verdict("one", "value", False),
        Verdict("two", "at_least(3)", False),
    )
    assert go(m, value=3, other=0).verdicts == (
        Verdict("one", "value", True),
        Verdict("one", "other", False),
        Verdict("two", "at_least(3)", True),
        Verdict("two", "unless other", True),
    )


def test_a_refused_event_tells_why(machine_of):
    quiet = ["worker_exited", "membership_changed", "signal_received", "action_failed"]
    m = machine_of(
        {"A": {"ignores": [*quiet, "run_requested"]}, "END": END},
        {"go": {"trigger": "run_requested", "source": "A", "dest": "END", "conditions": "value"}},
        value,
    )
    assert go(m, value=0) == Ignored("run_requested", "A", (Verdict("go", "value", False),))


def test_a_condition_that_raises_changes_nothing(machine):
    m = machine(
        {
            "first": {"trigger": "run_requested", "source": "A", "conditions": "value"},
            "go": {"trigger": "run_requested", "source": "A", "dest": "B", "unless": ["breaks"]},
            "last": {"trigger": "run_requested", "source": "A"},
        }
    )
    with pytest.raises(ConditionFailed, match="condition breaks of go: LookupError") as caught:
        go(m, value=0)
    assert (caught.value.transition, caught.value.condition) == ("go", "breaks")
    assert isinstance(caught.value.__cause__, LookupError)
    assert m.state.name == "A"
    assert go(m, value=1).transition == "first"


def test_an_event_that_nobody_knows_is_ignored(machine):
    m = machine({})
    assert go(m, "nobody_knows") == Ignored("nobody_knows", "A")
    assert go(m, "__init__") == Ignored("__init__", "A")


def test_the_library_stays_quiet_for_us_and_not_for_others(machine, caplog):
    caplog.set_level(logging.DEBUG)
    m = machine({"go": {"trigger": "run_requested", "source": "A", "conditions": "value"},
                 "on": {"trigger": "run_requested", "source": "A", "dest": "B"}})  # fmt: skip
    go(m, value=0)
    go(m, "nobody_knows")
    assert caplog.records == []
    logging.getLogger("transitions.core").info("%sanother machine", "mine: ")
    logging.getLogger("transitions.core").info("no arguments")
    assert len(caplog.records) == 2


@pytest.mark.parametrize("name", ["os.getcwd", "elastic_fsm.conditions.restart_allowed", "state"])
def test_strings_are_names_and_never_imported(machine, name):
    arrow = {"trigger": "run_requested", "source": "A", "dest": "B"}
    with pytest.raises(BadInput) as caught:
        machine({"a": arrow | {"conditions": name}, "b": arrow | {"after": name}})
    whats = [problem.what for problem in caught.value.problems]
    assert whats == [f"unknown condition {name!r}", f"unknown action {name!r}"]


def test_triggers_and_states_may_have_any_name(machine_of):
    """The library writes methods named after triggers and states onto its model, not ours."""
    names = ("state", "trigger", "may_go", "to_A", "step", "initial")
    states = {name.upper(): None for name in names} | {"A": None, "END": END}
    timeouts = {"A": {"timeouts": dict.fromkeys(names, 1)}}
    arrows = {name: {"trigger": name, "source": "A", "dest": name.upper()} for name in names}
    arrows["out"] = {"trigger": "run_finished", "source": "any", "dest": "END"}
    for name in names:
        m = machine_of({**states, **timeouts}, arrows)
        assert go(m, name).dest == name.upper()


def test_candidates_and_sources_of_a_declaration():
    spec, problems = read_machine(
        {
            "initial": "A",
            "states": {"A": None, "B": {"ignores": ["x"]}, "END": END},
            "transitions": {
                "general": {"trigger": "x", "source": "any", "dest": "END"},
                "low": {"trigger": "x", "source": ["A"], "priority": -1},
                "high": {"trigger": "x", "source": ["A", "END"], "dest": "same"},
                "different": {"trigger": "y", "source": ["B"], "dest": "A"},
            },
        }
    )
    assert problems == []

    def order(state):
        return [t.name for t in spec.candidates(state, "x")]

    assert order("A") == ["high", "low", "general"]
    assert order("B") == []
    assert order("END") == []
    assert spec.triggers() == ("x", "y")
    assert spec.sources(spec.transitions["general"]) == ("A",)
    assert spec.sources(spec.transitions["different"]) == ("B",)
    assert spec.transitions["high"].target("A") == "A"
    assert spec.transitions["low"].target("A") == "A"
    assert spec.transitions["different"].target("B") == "A"

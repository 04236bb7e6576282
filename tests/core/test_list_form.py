"""Machines in the list form of the ``transitions`` library."""

from __future__ import annotations

import pytest

from elastic_fsm.list_form import from_list_form, place_in_lists
from elastic_fsm.reading import read_machine


def read(states, transitions, **more):
    return read_machine({"initial": "A", "states": states, "transitions": transitions, **more})


def what(problems):
    return [f"{p.path}: {p.what}" for p in problems]


def test_states_as_names_and_mappings():
    spec, problems = read(
        ["A", {"name": "B", "on_enter": "start", "final": True, "exit_code": 3}],
        [{"trigger": "go", "source": "A", "dest": "B"}],
    )
    assert problems == []
    assert list(spec.states) == ["A", "B"]
    assert [str(use) for use in spec.states["B"].on_enter] == ["start"]
    assert spec.states["B"].exit_code == 3


def test_transitions_as_lists_take_their_places():
    spec, problems = read(
        ["A", "B"], [["go", "A", "B", ["c"], None, "b", ["a1", "a2"]], ("stop", "*", "=")]
    )
    assert problems == []
    go, stop = spec.transitions.values()
    assert (go.name, go.trigger, go.source, go.dest) == ("go_A", "go", ("A",), "B")
    uses = (go.conditions, go.unless, go.before, go.after)
    assert [[str(u) for u in some] for some in uses] == [["c"], [], ["b"], ["a1", "a2"]]
    assert (stop.name, stop.from_any, stop.dest) == ("stop_any", True, "same")


def test_names_come_from_event_and_source_and_are_never_the_same():
    entry = {"trigger": "go", "source": ["A", "B"], "dest": "B"}
    spec, problems = read(["A", "B"], [entry, entry, {**entry, "name": "mine"}, entry])
    assert problems == []
    assert list(spec.transitions) == ["go_A", "go_A_2", "mine", "go_A_3"]


def test_one_list_may_stand_beside_a_mapping():
    spec, problems = read({"A": None, "B": None}, [["go", "A", "B"]])
    assert problems == []
    assert list(spec.states) == ["A", "B"]


@pytest.mark.parametrize(
    ("state", "key"),
    [
        ({"name": "B", "children": ["x"]}, "children"),
        ({"name": "B", "timeout": 3}, "timeout"),
        ({"name": "B", "ignore_invalid_triggers": True}, "ignore_invalid_triggers"),
    ],
)
def test_what_has_no_counterpart_is_told_with_what_to_do(state, key):
    _, problems = read(["A", state], [["go", "A", "B"]])
    assert what(problems) == [
        f"machine.states.1.{key}: {key!r} of the transitions library is not known here"
    ]
    assert problems[0].fix


def test_options_of_the_constructor():
    _, problems = read(["A", "B"], [["go", "A", "B"]], queued=True, send_event=True)
    assert problems == []
    _, problems = read(["A", "B"], [["go", "A", "B"]], on_exception="x", send_event=False)
    assert [p.path for p in problems] == ["machine.on_exception"]


def test_prepare_is_refused_in_both_forms():
    entries = [
        {"trigger": "go", "source": "A", "dest": "B", "prepare": "p"},
        ["go", "A", "B", None, None, None, None, "p"],
    ]
    _, problems = read(["A", "B"], entries)
    assert [p.path for p in problems] == [f"machine.transitions.{n}.prepare" for n in (0, 1)]


def test_entries_that_are_neither():
    _, problems = read(["A", 3, {"on_enter": "x"}, "A"], [["go", "A"], 7, {"name": [1], "dest": 2}])
    assert what(problems)[:5] == [
        "machine.states.1: must be a name, or a mapping with `name:`, not 3",
        "machine.states.2: must be a name, or a mapping with `name:`, not {'on_enter': 'x'}",
        "machine.states.3: there are two states 'A'",
        "machine.transitions.0: must be a mapping, or a list [trigger, source, dest, …], "
        "not ['go', 'A']",
        "machine.transitions.1: must be a mapping, or a list [trigger, source, dest, …], not 7",
    ]


def test_a_large_entry_is_not_printed():
    large = [list(range(1000))] * 1000
    _, problems = from_list_form({"states": [large], "transitions": [large, {"x": large}]})
    assert problems
    assert all(len(str(problem)) < 400 for problem in problems)


def test_two_transitions_of_one_name():
    entry = {"name": "x", "trigger": "go", "source": "A", "dest": "A"}
    _, problems = read(["A"], [entry, entry])
    assert what(problems) == ["machine.transitions.1: there are two transitions 'x'"]


def test_words_that_mean_something_are_no_names():
    _, problems = read(["A", "same"], [["go", "A", "A"]])
    assert what(problems) == [
        "machine.states.same: 'same' cannot be a name: it means the state itself"
    ]


def test_unknown_keys_are_still_found():
    _, problems = read([{"name": "A", "on_entr": "x"}], [["go", "A", "A"]])
    assert what(problems) == ["machine.states.A.on_entr: unknown key 'on_entr'"]


LISTED = {
    "states": ["A", 7, {"name": "B"}],
    "transitions": [["go", "A", "B"], 7, {"trigger": "go", "source": "A", "name": "mine"}],
}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("machine.transitions.go_A.dest", "machine.transitions.0.2"),
        ("machine.transitions.go_A.doc", "machine.transitions.0.doc"),
        ("machine.transitions.go_A", "machine.transitions.0"),
        ("machine.transitions.mine.dest", "machine.transitions.2.dest"),
        ("machine.transitions.1", "machine.transitions.1"),
        ("machine.states.B.timeouts.rested", "machine.states.2.timeouts.rested"),
        ("machine.states", "machine.states"),
        ("machine.initial", "machine.initial"),
        ("spec.states.B", "spec.states.B"),
    ],
)
def test_where_a_named_entry_stands(path, place):
    assert place_in_lists(path, LISTED) == place
    assert place_in_lists(path, {"states": {"A": {}}}) == path
    assert place_in_lists(path, None) == path


def test_the_mapping_form_comes_back_as_it_is():
    data = {"initial": "A", "states": {"A": None}, "transitions": {"go": {}}, "queued": True}
    _, problems = read_machine(data)
    assert "unknown key 'queued'" in [p.what for p in problems]

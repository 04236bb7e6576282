"""Reading a declaration, registering rules, and binding the one to the other."""

from __future__ import annotations

import pytest

from elastic_fsm import actions, conditions
from elastic_fsm.binding import Rules, bind
from elastic_fsm.checks import check, known_events
from elastic_fsm.declaration import Use
from elastic_fsm.durations import parse_duration
from elastic_fsm.events import Event
from elastic_fsm.facts import Facts
from elastic_fsm.group import WorkerState
from elastic_fsm.plugins import rules_for
from elastic_fsm.problems import BadInput, Problem, closest, cut, did_you_mean, shortened
from elastic_fsm.reading import read_machine
from elastic_fsm.registry import Registry, action, condition, delay
from elastic_fsm.testing import settings_for

SETTINGS = {"stop": {"signals": ["SIGTERM", "SIGUSR1"], "window": 0.5}, "run_id": "x"}


def read(**transitions):
    spec, problems = read_machine(
        {
            "initial": "A",
            "states": {
                "A": {"worker_state": "HEALTHY"},
                "B": {"final": True, "exit_code": "signal"},
            },
            "transitions": transitions,
        }
    )
    assert problems == []
    return spec


def test_one_name_or_a_list_of_names():
    spec = read(
        go={"trigger": "x", "source": "A", "before": "one", "after": ["one", {"two": 2}]},
    )
    go = spec.transitions["go"]
    assert go.source == ("A",)
    assert [str(use) for use in (*go.before, *go.after)] == ["one", "one", "two(2)"]
    assert go.before[0].path == "machine.transitions.go.before"
    assert spec.states["A"].worker_state is WorkerState.HEALTHY
    assert spec.states["B"].exit_code == "signal"
    assert not go.guarded
    assert not go.from_any


def test_a_transition_that_is_like_another():
    """It has what it says itself, and else what the other one has; its place is its own."""
    go = {"trigger": "x", "source": "A", "dest": "B", "conditions": ["one"], "after": ["two"]}
    other = {"like": "go", "trigger": "y", "source": "B", "after": [], "unless": "three"}
    spec = read(other=other, go={**go, "priority": 3})
    like = spec.transitions["other"]
    assert (like.trigger, like.source, like.dest) == ("y", ("B",), "B")
    assert (like.after, like.before, like.priority) == ((), (), 0)
    assert like.conditions is spec.transitions["go"].conditions
    assert [str(use) for use in like.unless] == ["three"]


def test_a_transition_that_is_like_one_that_is_like_another():
    """Each has what it says itself, else what its model has; their order does not matter."""
    arrow = {"trigger": "x", "source": "A"}
    third = {**arrow, "like": "second", "unless": "three"}
    second = {**arrow, "like": "go", "conditions": ["two"]}
    spec = read(third=third, second=second, go={**arrow, "dest": "B", "conditions": ["one"]})
    like = spec.transitions["third"]
    assert like.dest == "B"
    assert [str(use) for use in (*like.conditions, *like.unless)] == ["two", "three"]


@pytest.mark.parametrize(
    ("likes", "what"),
    [
        ({"a": "went"}, "a.like: there is no transition 'went' to be like"),
        ({"a": "b", "b": "went", "c": "a"}, "b.like: there is no transition 'went' to be like"),
        ({"a": "a"}, "a.like: like each other in a circle: a -> a"),
        (
            {"a": "b", "b": "c", "c": "b", "d": "c"},
            "b.like: like each other in a circle: b -> c -> b",
        ),
        ({"a": ["go"], "b": "a"}, "a.like: must be text, not list ['go']"),
        ({"a": ""}, "a.like: must be a name, not an empty text"),
    ],
)
def test_a_like_that_leads_nowhere_is_one_problem(likes, what):
    """The checks say nothing of what cannot be known then: where it leads, whom it shadows."""
    go = {"trigger": "run_requested", "source": "A", "dest": "B", "conditions": ["one"]}
    first = {name: {**go, "priority": 1, "like": like} for name, like in likes.items()}
    for arrow in first.values():
        del arrow["dest"], arrow["conditions"]
    events = ["worker_exited", "membership_changed", "signal_received", "action_failed"]
    states = {"A": {"ignores": [*events, "run_requested"]}, "B": {"final": True, "exit_code": 0}}
    data = {"initial": "A", "states": states, "transitions": {"go": go, **first}}
    spec, problems = read_machine(data)
    found = [f"{problem.path}: {problem.what}" for problem in problems]
    assert found == [f"machine.transitions.{what}"]
    assert check(spec, Rules(), set()) == []


@pytest.mark.parametrize(
    ("slip", "what"),
    [
        ({"dest": "BACKOF"}, "restart.dest: unknown state 'BACKOF'"),
        (
            {"conditions": 7},
            "restart.conditions: must be a name or `name: parameters`, not int 7",
        ),
        ({"unless": [[]]}, "restart.unless: must be a name or `name: parameters`, not list []"),
        (None, "restart: must be a mapping, not nothing"),
        (7, "restart: must be a mapping, not int 7"),
    ],
)
def test_a_slip_in_one_that_another_is_like_is_one_problem(slip, what):
    """Neither does it count as a transition that is always taken, or that leads nowhere."""
    machine = settings_for("elastic")["machine"]
    arrows = machine["transitions"]
    arrows["restart"] = arrows["restart"] | slip if isinstance(slip, dict) else slip
    assert slips_in(machine) == [f"machine.transitions.{what}"]


@pytest.mark.parametrize(
    ("name", "slip", "what"),
    [
        ("joined", None, ": must be a mapping, not nothing"),
        ("joined", {"source": 7}, ".source: must be text, not int 7"),
        ("joined", {"trigger": 7}, ".trigger: must be text, not int 7"),
        ("worker_done", None, ": must be a mapping, not nothing"),
        ("again", {"trigger": None}, ": has no 'trigger'"),
        ("begin", {"source": None}, ": has no 'source'"),
    ],
)
def test_what_only_an_unreadable_transition_would_do_is_not_missed(name, slip, what):
    machine = settings_for("elastic")["machine"]
    arrows = machine["transitions"]
    arrows[name] = slip and arrows[name] | slip
    assert slips_in(machine) == [f"machine.transitions.{name}{what}"]


def test_a_transition_that_starts_nowhere_hides_nothing():
    machine = settings_for("elastic")["machine"]
    machine["transitions"]["joined"]["source"] = []
    assert len(slips_in(machine)) > 1


def test_a_transition_without_a_trigger_is_one_problem():
    machine = settings_for("elastic")["machine"]
    machine["transitions"]["c"] = {"like": "doubt_restart", "source": ["DOUBTING"], "priority": 2}
    assert slips_in(machine) == ["machine.transitions.c: has no 'trigger'"]


def slips_in(machine):
    registry = rules_for([])
    spec, unread = read_machine(machine)
    rules, unbound = bind(spec, registry, settings_for("elastic"))
    problems = [*unread, *unbound, *check(spec, rules, registry.answers())]
    return [f"{problem.path}: {problem.what}" for problem in problems]


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (Use("a"), "a"),
        (Use("a", 3), "a(3)"),
        (Use("a", [75, "SIGHUP"]), "a(75, SIGHUP)"),
        (Use("a", {"low": 1, "high": 2}), "a(low=1, high=2)"),
    ],
)
def test_a_use_reads_as_it_is_written(use, text):
    assert str(use) == text


def test_two_uses_of_a_name_are_two():
    assert Use("a") != Use("a")


# -- durations and suggestions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), (0, 0.0), (1.5, 1.5), ("30", 30.0), ("500ms", 0.5), ("30s", 30.0),
        ("5m", 300.0), (" 2 h ", 7200.0), ("1d", 86400.0), ("0.5m", 30.0),
    ],
)  # fmt: skip
def test_durations(value, seconds):
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        -1, "-1", "", "s", "3 weeks", True, [], float("inf"), float("nan"), "1e3", "1,5s",
        pytest.param(10**400, id="large"), pytest.param("9" * 400, id="long"), [0] * 1000,
    ],
)  # fmt: skip
def test_no_durations(value):
    with pytest.raises(ValueError, match="is not a duration") as caught:
        parse_duration(value)
    assert len(str(caught.value)) < 200


def test_suggestions():
    assert did_you_mean("HEALHTY", ["HEALTHY", "UNHEALTHY"]) == "did you mean 'HEALTHY'?"
    assert did_you_mean("xyz", ["b", "a", "b"]) == "known: a, b"
    assert did_you_mean("xyz", []) == ""
    assert closest("xyz", ["a"]) is None


def test_problems_as_text():
    problem = Problem("is wrong", path="a.b", fix="mend it", where="f.yaml:3")
    assert str(problem) == "f.yaml:3: a.b: is wrong\n    mend it"
    assert str(Problem("is wrong")) == "is wrong"
    several = BadInput([problem, Problem("too", path="c")])
    assert str(several) == f"{problem}\nc: too"
    assert BadInput.of("is wrong", path="c").problems == (Problem("is wrong", path="c"),)
    with pytest.raises(AssertionError, match=r"say BadInput\(\[problem\]\)"):
        BadInput(problem)


def test_a_problem_is_less_than_a_screen_whatever_it_tells():
    """Beginning and end are there: of a place its last line number, of a key its last part."""
    problem = Problem(*(f"<{name}{'x' * 5000}>" for name in Problem._fields))._replace(
        fix="<fixxxx"
    )
    screen = str(BadInput([problem]))
    assert len(screen) < 24 * 100
    for name in Problem._fields:
        assert f"<{name}xxx" in screen
    assert screen.count("xxx…xxx") == screen.count("xxx>") == 3


def test_a_fix_is_whole_since_it_may_be_there_to_be_typed():
    fix = f"as text: 'spec.role=\"{'x' * 5000}\"'"
    assert str(Problem("is wrong", fix=fix)).endswith(f"\n    {fix}")


def test_many_problems_and_many_names_are_counted():
    problems = [Problem(f"number {n}") for n in range(57)]
    error = BadInput(problems)
    assert error.problems == tuple(problems)
    assert str(error).splitlines() == [f"number {n}" for n in range(20)] + ["and 37 more"]
    assert str(BadInput(problems[:20])).endswith("number 19")
    names = [f"n{n:02}" for n in range(77)]
    assert did_you_mean("xyz", names) == f"known: {', '.join(names[:40])} and 37 more"
    assert did_you_mean("xyz", names[:40]).endswith("n39")


def test_what_is_left_out_has_one_mark():
    assert cut("x" * 500).count("…") == shortened("x" * 501).count("…") == 1
    assert "..." not in cut("x" * 500)


# -- the registry ------------------------------------------------------------------------------


@condition
def mine(event, facts, low, high=3):
    """Whether it is mine.

    More about it.
    """
    return low <= event.data["n"] <= high


@condition
def named(event, facts, low=1, *, high): ...


@action(answers=["tested"], optional=True)
def test_it(agent, event): ...


test_it.__test__ = False


@delay
def half_window(facts, settings):
    return settings["stop"]["window"] / 2


def test_a_registry_knows_the_marked_functions_of_its_modules(module_of):
    def unmarked(event, facts): ...

    registry = Registry([module_of(mine, test_it, half_window, unmarked)])
    rule = registry.find("condition", "mine")
    assert rule is not None
    assert (rule.parameters, rule.required) == (("low", "high"), ("low",))
    assert rule.doc == "Whether it is mine."
    assert registry.find("action", "mine") is None
    assert registry.find("condition", "unmarked") is None
    assert registry.answers() == {"tested"}
    assert registry.suggest("condition", "mien") == "did you mean 'mine'?"
    assert registry.suggest("delay", "xyz") == "known: half_window"
    assert Registry([module_of(test_it)]).find("action", "test_it").doc == ""


def test_a_marked_function_is_the_function():
    assert mine(Event("x", {"n": 2}), Facts(), low=1) is True


def test_one_name_cannot_mean_two_things(module_of):
    def other():
        @condition
        def mine(event, facts): ...

        return mine

    registry = Registry([module_of(mine)])
    registry.add_module(module_of(mine))  # the same one again, as after `from … import`
    with pytest.raises(ValueError, match="two conditions are named 'mine'"):
        registry.add_module(module_of(other()))


def test_shipped_rules_are_documented():
    registry = Registry([conditions, actions])
    for module, kind in ((conditions, "condition"), (actions, "action")):
        for name in module.__all__:
            rule = registry.find(kind, name) or registry.find("delay", name)
            assert rule is not None, name
            assert rule.doc.endswith((".", ":")), name


# -- binding -----------------------------------------------------------------------------------


def bound(module_of, use=None, timeouts=None):
    spec, problems = read_machine(
        {
            "initial": "A",
            "states": {"A": {"timeouts": timeouts or {}}},
            "transitions": {"go": {"trigger": "x", "source": "A", "conditions": use or []}},
        }
    )
    assert problems == []
    registry = Registry([conditions, module_of(mine, named, test_it, half_window)])
    rules, problems = bind(spec, registry, SETTINGS)
    return spec, rules, [problem.what for problem in problems]


def test_a_wrong_name_in_two_that_are_alike_is_one_problem():
    go = {"trigger": "x", "source": "A", "conditions": "nobody", "after": "nothing"}
    spec = read(go=go, other={"like": "go", "trigger": "y", "source": "A"})
    _, problems = bind(spec, Registry([]), SETTINGS)
    assert [problem.path for problem in problems] == [
        "machine.transitions.go.conditions",
        "machine.transitions.go.after",
    ]


@pytest.mark.parametrize(
    ("use", "number", "held"),
    [
        ({"mine": 2}, 2, True),
        ({"mine": 2}, 1, False),
        ({"mine": {"low": 1, "high": 1}}, 2, False),
        ({"mine": {"low": "stop.window"}}, 0.5, True),
        ({"mine": {"low": "stop.window"}}, 0.4, False),
    ],
)
def test_parameters_of_conditions(module_of, use, number, held):
    spec, rules, problems = bound(module_of, use)
    assert problems == []
    ask = rules.conditions[spec.transitions["go"].conditions[0]]
    assert ask(Event("x", {"n": number}), Facts()) is held


@pytest.mark.parametrize(
    ("use", "what"),
    [
        ("mine", "condition 'mine': needs the parameter 'low': {mine: …}"),
        ({"mine": {"high": 3}}, "condition 'mine': needs the parameter 'low': {mine: …}"),
        ({"mine": {"low": 1, "hihg": 3}}, "condition 'mine': unknown parameter 'hihg'"),
        ({"mine": "stop.widnow"}, "condition 'mine': no configuration value 'stop.widnow'"),
        ({"mine": "stop.window.more"},
         "condition 'mine': no configuration value 'stop.window.more'"),
        ({"restart_allowed": 1}, "condition 'restart_allowed': takes no parameters"),
        ("test_it", "unknown condition 'test_it'"),
        ({"named": {"low": 1}}, "condition 'named': needs the parameter 'high': {named: …}"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_problems(module_of, use, what):
    assert bound(module_of, use)[2] == [what]


def test_signals_that_conditions_ask_for_are_known(module_of):
    _, rules, _ = bound(module_of, [{"signal_in": ["SIGUSR2"]}, {"signal_in": "stop.signals"}])
    assert rules.signals == {"SIGUSR2", "SIGTERM", "SIGUSR1"}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("5m", 300.0), (2, 2.0), (None, None), ("stop.window", 0.5), ("half_window", 0.25)],
)
def test_timeouts_are_durations_settings_or_delays(module_of, value, seconds):
    _, rules, problems = bound(module_of, timeouts={"late": value})
    assert problems == []
    assert rules.timeouts["A"]["late"](Facts()) == seconds


def test_every_event_that_can_occur_is_known(module_of):
    spec, _, _ = bound(module_of, timeouts={"late": 3})
    assert {"late", "answered", "worker_exited"} <= known_events(spec, {"answered"})
    assert "x" not in known_events(spec, set())

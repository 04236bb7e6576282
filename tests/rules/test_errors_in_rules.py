"""Errors in rules of the user's own end as the declaration says, in virtual time."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from elastic_fsm.registry import action, condition, delay
from elastic_fsm.testing import Scenario


@condition
def wrong(event, facts):
    return 1 / 0


@condition
def leaves(event, facts):
    sys.exit(0)


@condition
def undecided(event, facts):
    class Neither:
        def __bool__(self):
            raise ValueError("neither true nor false")

    return Neither()


@action
def breaks(agent, event):
    raise OSError("no")


@action
def quits(agent, event):
    sys.exit(0)


@delay
def tomorrow(facts, settings):
    return "tomorrow"


@delay
def negative(facts, settings):
    return -1


@delay
def quits_later(facts, settings):
    sys.exit(0)


@delay
def soon(facts, settings):
    return "2s"


RULES = ModuleType("faulty")
vars(RULES).update(
    {rule.__name__: rule for rule in (wrong, leaves, undecided, breaks, quits, tomorrow)}
    | {rule.__name__: rule for rule in (negative, quits_later, soon)}
)
BORED = {"bored": {"trigger": "bored", "source": ["HEALTHY"], "dest": "SETTLING"}}


def played(**machine):
    run = Scenario("elastic", workers=1, plugins=[RULES], machine=machine)
    run.exits(0, code=3, at=10)
    return run, run.play()


@pytest.mark.parametrize(
    ("machine", "error"),
    [
        ({"transitions": {"worker_lost": {"conditions": ["wrong"]}}}, "ZeroDivisionError"),
        ({"transitions": {"worker_lost": {"conditions": ["leaves"]}}}, "SystemExit: 0"),
        ({"transitions": {"worker_lost": {"conditions": ["undecided"]}}}, "neither true"),
        ({"states": {"HEALTHY": {"on_enter": ["breaks"]}}}, "breaks: OSError: no"),
        ({"states": {"HEALTHY": {"on_enter": ["quits"]}}}, "quits: SystemExit: 0"),
        ({"states": {"HEALTHY": {"timeouts": {"bored": "tomorrow"}}}}, "'tomorrow' is not a dur"),
        ({"states": {"HEALTHY": {"timeouts": {"bored": "negative"}}}}, "-1 is not a duration"),
        ({"states": {"HEALTHY": {"timeouts": {"bored": "quits_later"}}}}, "SystemExit: 0"),
    ],
)
def test_it_ends_as_declared(machine, error):
    if "timeouts" in str(machine):
        machine = machine | {"transitions": BORED}
    run, result = played(**machine)
    assert [state for _, state in run.path[-2:]] == ["ABORTING", "UNKNOWN"]
    assert result.exit_code == 70
    assert error in run.agent.error


def test_a_delay_may_be_written_as_people_write_it():
    run, _ = played(states={"HEALTHY": {"timeouts": {"bored": "soon"}}}, transitions=BORED)
    assert run.loop.clock.now() == 2


def test_the_declaration_may_say_something_else():
    machine = {
        "states": {"HEALTHY": {"on_enter": ["breaks"]}},
        "transitions": {"shrug": {"trigger": "action_failed", "source": ["HEALTHY"]}},
    }
    run, result = played(**machine)
    assert ("shrug", "HEALTHY") in run.path
    assert result.exit_code == 3


@pytest.mark.parametrize(
    "machine",
    [
        {"transitions": {"worker_lost": {"conditions": ["wrong"]}}},
        {"states": {"HEALTHY": {"on_enter": ["breaks"]}}},
        {"states": {"HEALTHY": {"timeouts": {"bored": "quits_later"}}}, "transitions": BORED},
    ],
)
def test_the_line_that_raised_is_named(machine):
    run, _ = played(**machine)
    rule = next(rule for rule in (wrong, breaks, quits_later) if rule.__name__ in str(machine))
    line = rule.__code__.co_firstlineno + 2  # a decorator, a head, and the only line
    assert run.agent.error.endswith(f" (test_errors_in_rules.py:{line})")

"""The conditions and the delay that come with the agent: one table each."""

from __future__ import annotations

import pytest

from elastic_fsm.conditions import (
    all_succeeded,
    ended_by,
    exit_code_in,
    in_state_for,
    restart_allowed,
    restart_delay,
    signal_in,
    worker_failed,
)
from elastic_fsm.durations import LONGEST
from elastic_fsm.events import Event
from elastic_fsm.facts import Facts

NOTHING = Event("nothing")


def exits(size, stopped=(), **codes):
    """Facts of a group: ``r1=0`` is local rank 1 that ended with 0."""
    ended = {int(rank[1:]): code for rank, code in codes.items()}
    return Facts(local_world_size=size, exit_codes=ended, stopped=stopped)


@pytest.mark.parametrize(
    ("facts", "held"),
    [
        (exits(2, r0=0, r1=0), True),
        (exits(2, r0=0), False),
        (exits(2, r0=0, r1=1), False),
        (exits(2, r0=0, r1=-15), False),
        (exits(2, (1,), r0=0, r1=0), False),
        (exits(1), False),
    ],
)
def test_all_succeeded(facts, held):
    assert all_succeeded(NOTHING, facts) is held


@pytest.mark.parametrize(
    ("data", "held"),
    [
        ({"exit_code": 0, "stopped_by_agent": False}, False),
        ({"exit_code": 1, "stopped_by_agent": False}, True),
        ({"exit_code": -9}, True),
        ({"exit_code": -9, "stopped_by_agent": True}, False),
    ],
)
def test_worker_failed(data, held):
    assert worker_failed(Event("worker_exited", data), Facts()) is held


@pytest.mark.parametrize(("left", "held"), [(2, True), (1, True), (0, False)])
def test_restart_allowed(left, held):
    assert restart_allowed(NOTHING, Facts(restarts_left=left)) is held


def test_signal_in():
    event = Event("signal_received", {"signal": "SIGHUP"})
    assert signal_in(event, Facts(), ["SIGTERM", "SIGHUP"])
    assert not signal_in(event, Facts(), ["SIGTERM"])


@pytest.mark.parametrize(
    ("facts", "held"),
    [
        (exits(3, r0=-15), True),
        (exits(3, r0=143), True),
        (exits(3, r0=1, r1=-15), True),
        (exits(3, (0,), r0=-15), False),
        (exits(3, r0=15), False),
        (exits(3, r0=0), False),
        (exits(3), False),
        (exits(3, r0=-2), False),
    ],
)
def test_ended_by(facts, held):
    assert ended_by(NOTHING, facts, ["SIGTERM", "SIGHUP"]) is held


@pytest.mark.parametrize(
    ("caught", "held"),
    [(["SIGTERM"], True), (["SIGINT", "SIGUSR1"], False), ([], False), (None, True)],
)
def test_ended_by_a_signal_that_was_caught(caught, held):
    """Python has a handler for SIGINT in every program, so that says nothing."""
    event = Event("workers_stopped", {"caught": caught})
    assert ended_by(event, exits(3, r0=1), ["SIGTERM", "SIGINT"]) is held
    assert not ended_by(event, exits(3, r0=1), ["SIGINT"])


@pytest.mark.parametrize(
    ("facts", "codes", "held"),
    [
        (exits(3, r0=75), [75], True),
        (exits(3, r0=1, r1=75), [75], False),
        (exits(3, (0,), r0=1, r1=75), [75], True),
        (exits(3, r0=0, r1=75), [75], True),
        (exits(3, r0=-9), ["SIGKILL"], True),
        (exits(3, r0=-9), [9, 137], False),
        (exits(3), [0], False),
        (exits(3, r0=75), [], False),
    ],
)
def test_exit_code_in_asks_for_the_first_failure(facts, codes, held):
    assert exit_code_in(NOTHING, facts, codes) is held


@pytest.mark.parametrize(
    ("seconds", "held"), [(5, True), ("5s", True), (5.01, False), ("500ms", True), (0, True)]
)
def test_in_state_for(seconds, held):
    assert in_state_for(NOTHING, Facts(now=12.0, entered_at=7.0), seconds) is held


@pytest.mark.parametrize(
    ("delay", "factor", "longest", "used", "seconds"),
    [
        (0, 2.0, "5m", 3, 0.0),
        (1, 1.0, "5m", 9, 1.0),
        ("1s", 2.0, "5m", 0, 1.0),
        ("1s", 2.0, "5m", 3, 8.0),
        (1, 2.0, 5, 3, 5.0),
        (9, 2.0, 5, 0, 5.0),
        (1, 2.0, None, 10, 1024.0),
        (1, 2.0, "5m", 10**9, 300.0),
        (None, 2.0, "5m", 1, 0.0),
        (1, 2.0, None, 40, LONGEST),
        (1, 2.0, None, 2**31, LONGEST),
        (0, 2.0, None, 2**31, 0.0),
        (0, float("inf"), None, 3, 0.0),
        (1, float("inf"), "5m", 3, 300.0),
        (1, 1, None, 2**31, 1.0),
    ],
)
def test_restart_delay(delay, factor, longest, used, seconds):
    settings = {"restart": {"delay": delay, "factor": factor, "max_delay": longest}}
    facts = Facts(max_restarts=used + 1, restarts_left=1)
    assert restart_delay(facts, settings) == seconds

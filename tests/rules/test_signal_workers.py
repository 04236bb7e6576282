"""Passing a signal on to the workers, which go on running."""

from __future__ import annotations

import pytest

from elastic_fsm.problems import BadInput
from elastic_fsm.testing import Scenario


def played(action, *, trigger="signal_received"):
    arrow = "reform" if trigger == "membership_changed" else "other_signal"
    run = Scenario("elastic", machine={"transitions": {arrow: {"after": [action]}}})
    run.signal("SIGUSR1", at=10)
    run.post("membership_changed", at=11)
    run.exits(0, at=20)
    run.exits(1, at=20)
    run.play()
    return run


def sent(run):
    return [call[1:] for call in run.launcher.calls if call[0] == "signal"]


@pytest.mark.parametrize(
    ("action", "trigger", "signal"),
    [
        ("signal_workers", "signal_received", "SIGUSR1"),
        ({"signal_workers": "SIGUSR2"}, "signal_received", "SIGUSR2"),
        ({"signal_workers": {"signal": "SIGHUP"}}, "membership_changed", "SIGHUP"),
        ("signal_workers", "membership_changed", "SIGTERM"),
        ({"signal_workers": "stop.signal"}, "signal_received", "SIGTERM"),
    ],
)
def test_which_signal(action, trigger, signal):
    run = played(action, trigger=trigger)
    assert sent(run) == [(signal, None)]
    assert run.path[-1] == ("settled", "SUCCEEDED")


def test_workers_that_take_it():
    run = Scenario(
        "elastic",
        machine={
            "transitions": {
                "pass_on": {
                    "trigger": "signal_received",
                    "source": ["HEALTHY"],
                    "conditions": [{"signal_in": ["SIGUSR1"]}],
                    "after": ["signal_workers"],
                }
            }
        },
    )
    run.launcher.on_signal = {"SIGUSR1": (5.0, 0)}
    run.signal("SIGUSR1", at=10)
    result = run.play()
    assert (run.loop.clock.now(), result.exit_code) == (15, 0)


def test_a_signal_that_does_not_exist():
    with pytest.raises(BadInput, match=r"unknown signal 'SIGUSR3'\s+did you mean 'SIGUSR"):
        played({"signal_workers": "SIGUSR3"})

"""Sinks of records and metrics that fail, or that cannot be: a run does not end for them."""

from __future__ import annotations

import json
import logging

import pytest
from scripted_agents import DONE, failed

from elastic_fsm.failures import SignalException
from elastic_fsm.group import WorkerState
from elastic_fsm.server.launching import LaunchConfig, elastic_launch
from elastic_fsm.telemetry import events, metrics, mishaps
from elastic_fsm.telemetry.events import Event, EventSource, record
from elastic_fsm.telemetry.metrics import MetricHandler, prof, put_metric


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(mishaps, "_told", [])
    monkeypatch.setattr(metrics, "_default", [metrics.NullMetricHandler()])
    monkeypatch.setattr(metrics, "_of_group", {})


class Sink(logging.Handler):
    """Keeps what it gets; with ``error`` it raises that each time."""

    def __init__(self, error=None):
        super().__init__()
        self.error = error
        self.kept = []

    def emit(self, record):
        self.kept.append(json.loads(record.getMessage()))
        if self.error is not None:
            raise self.error


class Meter(MetricHandler):
    def emit(self, metric_data):
        raise LookupError("no collector\nsays the collector")


@pytest.fixture
def sink(monkeypatch):
    """``sink(error)``: a new sink under the name ``mine``."""

    def put(error=None):
        mine = Sink(error)
        monkeypatch.setitem(events.SINKS, "mine", mine)
        return mine

    return put


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit(3)])
def test_a_sink_that_fails_is_told_once_and_ends_nothing(simple, sink, caplog, error):
    mine = sink(error)
    agent = simple([failed(), DONE], event_log_handler="mine")
    assert agent.run().state is WorkerState.SUCCEEDED
    assert len(mine.kept) > 5
    [line] = [each.getMessage() for each in caplog.records if "failed:" in each.getMessage()]
    what = f"{type(error).__name__}: {error}"
    assert line.startswith(f"the handler of event records Sink failed: {what} (told once;")


def test_a_metric_handler_that_fails_is_told_once_and_ends_nothing(simple, caplog):
    metrics.configure(Meter())
    assert simple([failed(), DONE]).run().state is WorkerState.SUCCEEDED
    [line] = [each.getMessage() for each in caplog.records if "failed:" in each.getMessage()]
    assert line.startswith("the metric handler Meter failed: LookupError: no collector (told once;")


def test_each_handler_is_told_of(caplog):
    for handler in (Meter(), Meter()):
        metrics.configure(handler)
        put_metric("x", 1)
        put_metric("x", 1)
    assert caplog.text.count("Meter failed") == 2


def test_a_function_that_is_measured_keeps_its_value_and_its_error(caplog):
    metrics.configure(Meter(), "mine")
    assert prof(group="mine")(lambda: 3)() == 3
    with pytest.raises(ZeroDivisionError):
        prof(group="mine")(lambda: 1 / 0)()


def test_a_stop_signal_that_comes_meanwhile_goes_on(sink):
    sink(SignalException("told", 15))
    with pytest.raises(SignalException):
        record(Event("x", EventSource.AGENT), "mine")


@pytest.mark.parametrize("handler", [None, "console", Meter])
def test_what_is_no_metric_handler_is_refused(handler):
    with pytest.raises(TypeError, match="handler must be a MetricHandler, not"):
        metrics.configure(handler)


@pytest.mark.parametrize("place", [print, None])
def test_a_sink_that_is_no_handler_is_told_before_anything_starts(simple, monkeypatch, place):
    monkeypatch.setitem(events.SINKS, "mine", place)
    agent = simple([DONE], event_log_handler="mine")
    with pytest.raises(ValueError, match=r"event_log_handler 'mine' is no logging\.Handler: "):
        agent.run()
    assert agent.trace == []


@pytest.mark.parametrize("name", ["mine", ["console"]])
def test_a_launch_with_an_unknown_sink_does_not_even_meet(name):
    config = LaunchConfig(1, 1, 1, rdzv_backend="nobody-knows", event_log_handler=name)
    with pytest.raises(ValueError, match="unknown event_log_handler") as caught:
        elastic_launch(config, print)()
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "level"), [("", 20), ("debug", 10), ("WARN", 30), ("15", 15), ("verbose", 20)]
)
def test_a_level_by_name_or_number(sink, monkeypatch, caplog, text, level):
    monkeypatch.setenv("LOGLEVEL", text)
    mine = sink()
    for _ in range(2):
        record(Event("x", EventSource.AGENT), "mine")
    assert logging.getLogger("torchelastic-events-mine").level == level
    assert len(mine.kept) == (2 if level <= 20 else 0)
    told = [each.getMessage() for each in caplog.records]
    unknown = "LOGLEVEL: unknown level 'verbose', INFO is used; known are "
    assert [line.startswith(unknown) for line in told] == [True] * (text == "verbose")


def test_nobody_is_told_of_a_level_that_nobody_needs(simple, monkeypatch, caplog):
    monkeypatch.setenv("LOGLEVEL", "verbose")
    monkeypatch.setitem(events.SINKS, "null", logging.NullHandler())
    simple([DONE]).run()
    assert "LOGLEVEL" not in caplog.text

"""Workers that do not come back in time, in real runs: on all three machines."""

from __future__ import annotations

import json
import logging
import os
import signal
import tempfile
import threading

import overrunning
import pytest
from local_programs import OwnLoop, TakesPart

from elastic_fsm.group import WorkerSpec, WorkerState
from elastic_fsm.launchers.procfs import has_mark
from elastic_fsm.logs.specs import DefaultLogsSpecs
from elastic_fsm.problems import BadInput
from elastic_fsm.server.crew import Crew
from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.telemetry import events
from elastic_fsm.watchdogs import check_environment

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("kind", [LocalElasticAgent, TakesPart])


@pytest.fixture(autouse=True)
def enabled(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ENABLE_FILE_TIMER", "1")


@pytest.fixture
def agent_of(tmp_path):
    def make(entrypoint, kind=LocalElasticAgent, **spec):
        values = {"max_restarts": 1, "entrypoint": entrypoint, **spec}
        logs = DefaultLogsSpecs(str(tmp_path / "logs"))
        return kind(WorkerSpec("trainer", 2, **values), logs, overrides=[f"run_dir={tmp_path}"])

    return make


def transitions(journal):
    return [transition for transition, _ in journal().path]


def expired(journal):
    names = [r["event"] for r in journal().records if "event" in r]
    return [event["data"] for event in names if event["name"] == "timer_expired"]


@BOTH
def test_a_worker_that_overruns_is_ended_and_the_group_restarts(agent_of, journal, kind):
    agent = agent_of(overrunning.overruns_once, kind)
    assert agent.run().return_values == {0: 1, 1: 1}
    assert agent._remaining_restarts == 0
    assert "overran" in transitions(journal)
    [timer] = expired(journal)
    assert (timer["local_rank"], timer["scope"], timer["signal"]) == (1, "step", "SIGKILL")


@BOTH
def test_the_failure_names_the_timer(agent_of, kind):
    result = agent_of(overrunning.overruns_once, kind, max_restarts=0).run()
    assert result.state is WorkerState.FAILED
    assert result.exit_code == 137
    failure = result.failures[1]
    assert failure.signal_name() == "SIGKILL"
    assert failure.message.startswith("its timer 'step' expired after ")


@BOTH
def test_one_that_comes_back_in_time_is_left_alone(agent_of, journal, kind):
    result = agent_of(overrunning.comes_back_in_time, kind).run()
    assert result.return_values == {0: 0, 1: 0}
    assert expired(journal) == []


@BOTH
def test_an_inner_timer_that_is_taken_back_leaves_the_outer_one(agent_of, journal, kind):
    result = agent_of(overrunning.leaves_inner_and_overruns_outer, kind).run()
    assert result.return_values == {0: 1, 1: 1}
    assert [data["scope"] for data in expired(journal)] == ["outer"]


@BOTH
def test_a_child_process_of_a_worker_speaks_for_it(agent_of, journal, kind):
    result = agent_of(overrunning.its_child_overruns, kind).run()
    assert result.return_values == {0: 1, 1: 1}
    [timer] = expired(journal)
    assert (timer["scope"], timer["local_rank"]) == ("data", 1)


@BOTH
def test_another_signal(agent_of, journal, kind):
    result = agent_of(overrunning.ends_by_sigterm, kind).run()
    assert result.return_values == {0: 1, 1: 1}
    assert expired(journal)[0]["signal"] == "SIGTERM"


@BOTH
def test_garbage_in_the_pipe(agent_of, caplog, kind):
    result = agent_of(overrunning.writes_garbage, kind).run()
    assert result.return_values == {0: 1, 1: 1}
    assert caplog.text.count("is no request for a timer: b'hello'") == 1


@BOTH
def test_without_the_variable_there_are_no_timers(agent_of, monkeypatch, kind):
    monkeypatch.delenv("TORCHELASTIC_ENABLE_FILE_TIMER")
    monkeypatch.delenv("TORCHELASTIC_TIMER_FILE", raising=False)
    agent = agent_of(overrunning.has_no_timers, kind, max_restarts=0)
    result = agent.run()
    failure = next(iter(result.failures.values()))
    assert "there are no timers here" in failure.message
    assert agent._worker_watchdog is None


@BOTH
def test_where_the_pipe_is(agent_of, tmp_path, monkeypatch, kind):
    path = agent_of(overrunning.tells_where, kind).run().return_values[0]
    assert path.startswith(tempfile.gettempdir())
    assert not os.path.exists(os.path.dirname(path))
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", str(tmp_path / "mine"))
    values = agent_of(overrunning.tells_where, kind).run().return_values
    assert set(values.values()) == {str(tmp_path / "mine")}
    assert not os.path.exists(tmp_path / "mine")


@BOTH
def test_a_pipe_that_cannot_be_made(agent_of, tmp_path, monkeypatch, kind):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", str(tmp_path / "file"))
    with pytest.raises(FileExistsError):
        agent_of(overrunning.tells_where, kind).run()
    assert (tmp_path / "file").read_text() == "mine"


@BOTH
def test_what_expired_is_an_event_record_too(agent_of, monkeypatch, kind):
    kept = []

    class Keep(logging.Handler):
        def emit(self, record):
            kept.append(json.loads(record.getMessage()))

    monkeypatch.setitem(events.SINKS, "keep", Keep())
    agent_of(overrunning.its_child_overruns, kind, event_log_handler="keep").run()
    told = [r for r in kept if "watchdog_event" in r["metadata"]["metadata"]]
    assert [r["name"] for r in told] == ["timer expired", "kill worker process"]
    details = json.loads(told[0]["metadata"]["metadata"])
    assert (details["scope_id"], details["signal"]) == ("data", "9")
    assert told[0]["metadata"]["hostname"]


@pytest.mark.parametrize("kind", [LocalElasticAgent, TakesPart, OwnLoop])
def test_a_worker_that_sleeps_uninterruptibly(tmp_path, monkeypatch, kind):
    def state_of(pid):
        return "D" if has_mark(pid, "TORCHELASTIC_RESTART_COUNT=0") else "S"

    monkeypatch.setattr("elastic_fsm.watchdogs._state_of", state_of)
    program = ("-c", '[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exec sleep 600')
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/sh", args=program, max_restarts=1)
    agent = kind(
        spec,
        DefaultLogsSpecs(os.devnull),
        uninterruptible_state_timeout=0.2,
        overrides=[f"run_dir={tmp_path}"],
    )
    assert agent.run().state is WorkerState.SUCCEEDED
    assert agent._remaining_restarts == 0
    spec.max_restarts = agent._remaining_restarts = 0
    [failure] = agent.run().failures.values()
    assert failure.message == "its timer 'uninterruptible sleep' expired after 0.2 s"


class StopsTheWatchdog(TakesPart):
    """Ends it with the workers, as subclasses in the wild do."""

    def _shutdown(self, *args, **options):
        if self._worker_watchdog is not None:
            self._worker_watchdog.stop()
            self._worker_watchdog = None
        super()._shutdown(*args, **options)

    def _setup_local_watchdog(self, envs):
        super()._setup_local_watchdog(envs)
        assert self._worker_watchdog is not None
        for env in envs.values():
            env["SET_UP"] = env["TORCHELASTIC_TIMER_FILE"]


def test_a_subclass_that_stops_the_watchdog_has_timers_after_a_restart(agent_of, journal):
    agent = agent_of("/bin/sh", StopsTheWatchdog, args=("-c", _OVERRUNS), max_restarts=2)
    assert agent.run().state is WorkerState.SUCCEEDED
    assert transitions(journal).count("overran") == 2


def test_a_loop_of_ones_own_has_timers_at_each_start(agent_of, monkeypatch, tmp_path):
    monkeypatch.setattr("elastic_fsm.sources.timers._STOOD_STILL", 0.05)
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", str(tmp_path / "mine"))
    agent = agent_of("/bin/sh", OwnLoop, args=("-c", _OVERRUNS), max_restarts=1)
    [failure] = agent.run().failures.values()
    assert failure.message.startswith("its timer 'step' expired after ")
    assert agent._remaining_restarts == 0
    assert not (tmp_path / "mine").exists()
    assert "watchdogs" not in [thread.name for thread in threading.enumerate()]


def test_pids_are_not_watched_any_more_when_the_others_are_stopped(agent_of, monkeypatch):
    """They may be somebody else's soon."""
    stops, stop = [], Crew.stop

    def stopped(crew, *how):
        stops.append((agent._worker_watchdog, *how))
        stop(crew, *how)

    monkeypatch.setattr(Crew, "stop", stopped)
    agent = agent_of("/bin/false", OwnLoop, max_restarts=0)
    agent._shutdown_timeout = 7
    assert agent.run().is_failed()
    assert stops[0] == (None, signal.SIGTERM, 7), "and the grace is the agent's"


def test_a_pipe_that_cannot_be_made_ends_a_loop_of_ones_own(agent_of, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", str(tmp_path / "file"))
    with pytest.raises(FileExistsError):
        agent_of("/bin/true", OwnLoop).run()


_OVERRUNS = """
[ "${SET_UP=$TORCHELASTIC_TIMER_FILE}" = "$TORCHELASTIC_TIMER_FILE" ] || exit 3
[ "$RANK$TORCHELASTIC_RESTART_COUNT" = 02 ] && exit 0
[ "$RANK" = 1 ] && exit 0
echo '{"pid": '$$', "scope_id": "step", "expiration_time": 1, "signal": 9}' >"$SET_UP"
sleep 600
"""


# -- on the command line ---------------------------------------------------------------------------

OVERRUNS = """
import os, signal
from elastic_fsm.timer import expires
if os.environ["RANK"] == "1":
    with expires(after=0.01, scope="step"):
        signal.pause()
signal.pause()
"""
ON = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}


@pytest.mark.parametrize("machine", ["elastic", "fail_fast"])
def test_a_run_tells_on_console_and_report(scene, machine):
    scene.write("train.py", OVERRUNS)
    run = scene.run("-n", "2", f"machine={machine}", "train.py", env=ON)
    assert run.code == 137
    assert "the timer 'step' expired after " in run.err
    [cause] = run.report["attempts"][0]["causes"]
    assert cause["rank"] == 1
    assert cause["message"].startswith("its timer 'step' expired after ")


def test_bad_variables_are_bad_input(scene):
    names = ("HEALTH_CHECK_PORT", "UNINTERRUPTIBLE_STATE_TIMEOUT")
    env = {f"TORCHELASTIC_{name}": "many" for name in names}
    place = scene.write("taken", "mine")
    run = scene.run("true", env={**ON, **env, "TORCHELASTIC_TIMER_FILE": str(place)})
    assert run.code == 2
    assert "nothing was started; 3 problems:" in run.err
    for text in (
        "TORCHELASTIC_HEALTH_CHECK_PORT must be a port, not 'many'",
        "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT must be a number of seconds, not 'many'",
        f"{place} is in use",
    ):
        assert text in run.err
    assert not (scene.folder / "elastic_runs").exists()


@pytest.mark.parametrize("place", ["/proc/x", "/proc/no/such", "x" * 300])
def test_a_pipe_that_cannot_be_made_is_bad_input(monkeypatch, place):
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", place)
    with pytest.raises(BadInput, match=f"the pipe TORCHELASTIC_TIMER_FILE={place} cannot be made"):
        check_environment()


def test_a_pipe_that_can_be_made_is_not_there_yet(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", str(tmp_path / "new" / "timers"))
    check_environment()
    assert not list(tmp_path.iterdir())

"""LocalElasticAgent with real processes, on the full machine and on the coarse one."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import local_programs
import psutil
import pytest
from local_programs import TakesPart

from elastic_fsm.failures import SignalException
from elastic_fsm.group import WorkerSpec, WorkerState
from elastic_fsm.logs.specs import DefaultLogsSpecs, Std
from elastic_fsm.problems import BadInput
from elastic_fsm.rendezvous.single import SingleNodeHandler
from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.telemetry import events, metrics

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("kind", [LocalElasticAgent, TakesPart])


@pytest.fixture
def agent_of(tmp_path):
    def make(entrypoint, kind=LocalElasticAgent, *, size=2, logs=None, options=None, **spec):
        logs = logs or DefaultLogsSpecs(str(tmp_path / "logs"), redirects=Std.ALL)
        whole = WorkerSpec("trainer", size, entrypoint=entrypoint, **{"max_restarts": 0, **spec})
        where = [f"run_dir={tmp_path}", *(options or {}).pop("overrides", [])]
        return kind(whole, logs, overrides=where, **(options or {}))

    return make


def texts(tmp_path, name):
    return sorted(path.read_text() for path in tmp_path.glob(f"logs/*/attempt_*/*/{name}"))


@BOTH
def test_a_function(agent_of, tmp_path, kind):
    agent = agent_of(local_programs.trainer, kind, args=(10, "local rank ${local_rank}"))
    result = agent.run()
    assert result.state is WorkerState.SUCCEEDED
    assert result.return_values == {0: 0, 1: 10}
    assert texts(tmp_path, "stdout.log") == [
        "hello from 0, local rank 0\n",
        "hello from 1, local rank 1\n",
    ]


@BOTH
@pytest.mark.parametrize("entrypoint", [os.getcwd, "/bin/pwd"])
def test_where_workers_start(agent_of, tmp_path, kind, entrypoint):
    there = str(tmp_path.resolve() / "there")
    os.mkdir(there)
    result = agent_of(entrypoint, kind, size=1, cwd=there).run()
    assert [result.return_values[0], *texts(tmp_path, "stdout.log")] in (
        [there, ""],
        [None, f"{there}\n"],
    )


@BOTH
def test_a_program(agent_of, tmp_path, kind):
    words = (
        "-c",
        'echo "$RANK of $WORLD_SIZE, attempt $TORCHELASTIC_RESTART_COUNT: ${local_rank}"',
    )
    result = agent_of("/bin/sh", kind, args=words).run()
    assert result.return_values == {0: None, 1: None}
    assert texts(tmp_path, "stdout.log") == ["0 of 2, attempt 0: 0\n", "1 of 2, attempt 0: 1\n"]


def test_it_runs_on_the_full_machine_unless_a_subclass_takes_part(agent_of, journal):
    agent_of(local_programs.nap).run()
    assert journal().path[1] == ("joined", "STARTING")
    agent = agent_of(local_programs.nap, TakesPart)
    agent.run()
    assert agent.initialized == 1
    assert journal().path[1] == ("initialized", "HEALTHY")


@BOTH
def test_a_worker_that_fails_once(agent_of, tmp_path, kind):
    agent = agent_of(local_programs.fails_once, kind, args=("m",), max_restarts=2)
    result = agent.run()
    assert result.return_values == {0: "1", 1: "1"}
    assert agent._remaining_restarts == 1
    [text] = [text for text in texts(tmp_path, "stderr.log") if text]
    assert "LookupError: lost" in text


@BOTH
def test_workers_that_always_fail(agent_of, kind):
    result = agent_of(local_programs.fails_always, kind, max_restarts=1).run()
    assert result.is_failed()
    assert result.exit_code == 1
    failure = next(iter(result.failures.values()))
    assert failure.message.startswith("LookupError: lost in ")
    assert isinstance(failure.exception, LookupError)
    assert json.loads(Path(failure.error_file).read_text())["message"]["message"] == failure.message


@BOTH
def test_a_program_that_fails(agent_of, kind):
    result = agent_of("/bin/sh", kind, size=1, args=("-c", "echo why >&2; exit 7")).run()
    assert result.failures[0].exitcode == 7
    assert result.failures[0].stderr_tail == ["why"]
    assert result.exit_code == 7


@BOTH
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_stop_signal_leaves_as_an_exception_and_nothing_is_left(agent_of, kind, name):
    number = signal.Signals[name]
    agent = agent_of(local_programs.stops_the_agent, kind, args=(int(number),))
    before = set(psutil.Process().children(recursive=True))  # such as multiprocessing's tracker
    with pytest.raises(SignalException) as told:
        agent.run()
    assert told.value.sigval is number
    assert set(psutil.Process().children(recursive=True)) <= before


@BOTH
def test_teed_output_has_prefixes_and_filtered_lines_are_copied(agent_of, tmp_path, capfd, kind):
    logs = DefaultLogsSpecs(str(tmp_path / "logs"), tee=Std.ALL)
    agent = agent_of(
        local_programs.trainer,
        kind,
        logs=logs,
        args=(1, "x"),
        duplicate_stdout_filters=["from 1"],
        options={"log_line_prefix_template": "${role_name}/${rank}/${local_rank}: "},
    )
    agent.run()
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == [
        "trainer/0/0: hello from 0, x",
        "trainer/1/1: hello from 1, x",
    ]
    assert sorted(err.splitlines()) == ["trainer/0/0: careful", "trainer/1/1: careful"]
    [filtered] = tmp_path.glob("logs/*/attempt_0/filtered_stdout.log")
    assert filtered.read_text() == "trainer/1/1: hello from 1, x\n"


@BOTH
def test_an_agent_inside_a_worker_of_another_agent(agent_of, tmp_path, kind, monkeypatch):
    monkeypatch.setenv("INNER_RUNS", str(tmp_path / "inner"))
    result = agent_of(local_programs.inner_run, kind, size=1).run()
    [inner] = result.return_values.values()
    assert [env["RANK"] for env in inner.values()] == ["0", "1"]
    assert {env["WORLD_SIZE"] for env in inner.values()} == {"2"}
    assert {env["ROLE_NAME"] for env in inner.values()} == {"inner"}
    assert {env["TORCHELASTIC_MAX_RESTARTS"] for env in inner.values()} == {"3"}


def test_another_machine(agent_of, journal):
    overrides = ["machine=fail_fast"]
    agent = agent_of(local_programs.fails_always, max_restarts=3, options={"overrides": overrides})
    assert agent.run().is_failed()
    assert agent._remaining_restarts == 3


def test_importing_it_costs_little(tmp_path):
    """Neither torch nor Hydra: a program that only names the classes must not pay for them."""
    import subprocess

    code = (
        "import sys; from elastic_fsm import LocalElasticAgent, WorkerSpec;"
        "print(sorted({'torch', 'hydra', 'omegaconf', 'transitions', 'psutil'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- event records and metrics -------------------------------------------------------------------


class Kept(metrics.MetricHandler):
    def __init__(self):
        self.names = []

    def emit(self, metric_data):
        self.names.append(metric_data.name)


@BOTH
def test_event_records(agent_of, monkeypatch, kind):
    kept = []
    import logging

    handler = logging.Handler()
    handler.emit = lambda record: kept.append(events.Event.deserialize(record.getMessage()))
    monkeypatch.setitem(events.SINKS, "kept", handler)
    agent = agent_of(local_programs.nap, kind, event_log_handler="kept")
    agent.run()
    states = [event.metadata["state"] for event in kept]
    assert states == [
        *["RENDEZVOUS", "ASSIGN_WORKER_RANKS", "START", "START", "SUCCEEDED", "SUCCEEDED"]
    ]
    assert all(event.timestamp > 1e12 for event in kept)
    details = json.loads(kept[-1].metadata["metadata"])
    assert details["local_rank"] == 1
    assert details["role_world_size"] == 2
    assert kept[2].metadata["worker_id"].isdecimal()


@BOTH
def test_metrics(agent_of, monkeypatch, kind):
    kept = Kept()
    monkeypatch.setattr(metrics, "_default", [kept])
    agent_of(local_programs.fails_once, kind, args=("m",), max_restarts=1).run()
    assert {
        "workers.trainer.remaining_restarts",
        "workers.trainer.healthy",
        "workers.trainer.run_success_with_retries",
        "workers.trainer.run_total",
        "workers.trainer.flakiness",
    } <= set(kept.names)


def test_wrong_arguments_are_told_in_words(agent_of):
    with pytest.raises(ValueError, match="must not be negative"):
        agent_of("x", options={"shutdown_timeout": -1})
    with pytest.raises(ValueError, match="unknown event_log_handler 'nowhere'"):
        agent_of("/bin/true", event_log_handler="nowhere").run()


def test_the_workers_meet_at_the_loopback_interface_when_the_agent_is_alone(agent_of):
    result = agent_of(local_programs.environment).run()
    assert {env["MASTER_ADDR"] for env in result.return_values.values()} == {"127.0.0.1"}
    assert os.environ.get("MASTER_ADDR") is None


def test_members_that_others_read(agent_of):
    """The round's store, and whether the agent waits for others at the end."""
    agent = agent_of(local_programs.nap, rdzv_handler=SingleNodeHandler("run"))
    agent.run()
    assert agent._store is agent.get_worker_group().store
    assert agent._store.check(["torchelastic/agent/terminal_state/last_member"])
    assert agent._in_exit_barrier is False


def test_a_job_file_brings_its_own_machine_and_rules(agent_of, tmp_path, journal):
    folder = tmp_path / "job"
    (folder / "machine").mkdir(parents=True)
    (folder / "own_rules.py").write_text(
        "from elastic_fsm import condition\n\n"
        "@condition\ndef never(event, facts):\n    return False\n"
    )
    (folder / "machine" / "mine.yaml").write_text(
        "defaults: [elastic]\n"
        "transitions: {again_never: {trigger: workers_stopped, source: [UNHEALTHY], "
        "dest: BACKOFF, conditions: [never], priority: 1}}\n"
    )
    (folder / "job.yaml").write_text(
        f"defaults: [{{machine: mine}}]\nrun_dir: {tmp_path}\nplugins: [own_rules]\n"
    )
    agent = agent_of(local_programs.nap, options={"overrides": [], "job_file": folder / "job.yaml"})
    assert agent.run().state is WorkerState.SUCCEEDED
    assert "again_never" in agent._setup.machine().spec.transitions


@BOTH
def test_a_machine_that_is_for_another_kind_of_agent_is_refused(agent_of, kind):
    other = "elastic" if kind is TakesPart else "coarse"
    agent = agent_of(local_programs.nap, kind, options={"overrides": [f"machine={other}"]})
    with pytest.raises(BadInput, match="these actions"):
        agent.run()


@BOTH
def test_a_mistake_in_an_override_is_not_blamed_on_a_command_line(agent_of, kind):
    agent = agent_of(local_programs.nap, kind, options={"overrides": ["stop.grce=3"]})
    with pytest.raises(BadInput, match="there is no such key") as error:
        agent.run()
    assert str(error.value).startswith("overrides: stop.grce")

"""The health check over HTTP."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
import urllib.error
import urllib.request

import pytest
from local_programs import OwnLoop, TakesPart, nap
from scripted_agents import DONE, HEALTHY

from elastic_fsm.group import WorkerSpec
from elastic_fsm.health import HealthCheckServer, create_healthcheck_server
from elastic_fsm.logs.specs import DefaultLogsSpecs
from elastic_fsm.rendezvous.ports import free_port
from elastic_fsm.server.launching import LaunchConfig, elastic_launch
from elastic_fsm.server.local import LocalElasticAgent


def ask(port: int):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.fixture
def serve():
    servers = []

    def start(alive_callback, timeout=10.0, **options):
        server = HealthCheckServer(alive_callback, 0, timeout, **options)
        server.start()
        servers.append(server)
        return server.port

    yield start
    for server in servers:
        server.stop()


def test_alive(serve):
    status, answer = ask(serve(time.time, describe=lambda: {"state": "HEALTHY"}))
    assert status == 200
    assert answer["alive"] is True
    assert answer["state"] == "HEALTHY"
    assert answer["age"] < 10


def test_too_long_without_a_sign_of_life(serve):
    status, answer = ask(serve(lambda: time.time() - 100))
    assert status == 503
    assert answer["alive"] is False
    assert 100 <= answer["age"] < 110


def test_a_callback_that_raises_is_an_answer(serve):
    def fail():
        raise LookupError("lost")

    assert ask(serve(fail)) == (503, {"alive": False, "error": "LookupError: lost"})


def test_it_can_be_stopped_twice_and_listens_no_more():
    server = create_healthcheck_server(time.time, 0, 10)
    server.start()
    port = server.port
    server.stop()
    server.stop()
    with pytest.raises(urllib.error.URLError):
        ask(port)


def test_an_agent_answers_with_its_state_while_it_runs(simple, monkeypatch):
    port = free_port("127.0.0.1")
    monkeypatch.setenv("TORCHELASTIC_HEALTH_CHECK_PORT", str(port))
    answers = []

    def look():
        answers.append(ask(port))
        return HEALTHY

    simple([look, DONE]).run()
    [(status, answer)] = answers
    assert status == 200
    assert answer["state"] == answer["worker_state"] == "HEALTHY"
    assert answer["seconds_in_state"] >= 0
    with pytest.raises(urllib.error.URLError):
        ask(port)


@pytest.fixture
def port(monkeypatch):
    port = free_port("127.0.0.1")
    monkeypatch.setenv("TORCHELASTIC_HEALTH_CHECK_PORT", str(port))
    return port


def test_a_probe_that_hangs_up_or_asks_for_the_head_only(serve, capfd):
    asked = threading.Event()
    port = serve(lambda: asked.set() or time.time())
    with socket.create_connection(("127.0.0.1", port)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
    asked.wait(10)
    with socket.create_connection(("127.0.0.1", port)) as probe:
        probe.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: probe.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.0 200")
    assert answer.endswith(b"\r\n\r\n")
    assert capfd.readouterr() == ("", "")


# -- in real runs ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_answers_freshly_in_every_state(scene, port):
    script = 'trap "echo asked >$BELL; read x <$GATE; exit 0" TERM; echo up >$BELL; '
    run = scene.start(
        "--",
        "sh",
        "-c",
        script + "sleep $SLEEP & wait",
        env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)},
    )
    scene.bell.wait()
    run.enters("HEALTHY")
    check_fresh(port, "HEALTHY", "HEALTHY")
    run.signal("SIGTERM")
    assert scene.bell.wait() == ["asked"]
    check_fresh(port, "STOPPING", "STOPPED")
    scene.gate.open()
    assert run.wait() == 143


def check_fresh(port, state, worker_state):
    status, answer = ask(port)
    assert (status, answer["state"], answer["worker_state"]) == (200, state, worker_state)
    assert answer["age"] < 2


@pytest.mark.slow
def test_a_taken_port_is_bad_input(scene, serve):
    port = serve(time.time)
    run = scene.run("true", env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
    assert run.code == 2
    assert f"the health check cannot listen at {port}: Address already in use" in run.err
    assert not (scene.folder / "elastic_runs").exists()


@pytest.mark.slow
def test_an_agent_inside_a_worker_leaves_the_outer_ones_port_alone(scene, port):
    inner = [scene.python, "-m", "elastic_fsm", "run", "run_dir=inner", "--", "true"]
    run = scene.run("--", *inner, env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
    assert run.code == 0


class Server:
    """A user's own."""

    def __init__(self):
        self.calls = []

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")


@pytest.fixture
def agent_of(tmp_path):
    def make(kind, **options):
        spec = WorkerSpec("trainer", 1, entrypoint=nap, max_restarts=0)
        logs = DefaultLogsSpecs(os.devnull)
        return kind(spec, logs, overrides=[f"run_dir={tmp_path}"], **options)

    return make


BOTH = pytest.mark.parametrize("kind", [LocalElasticAgent, TakesPart])


@BOTH
@pytest.mark.slow
def test_a_server_of_ones_own_is_started_and_stopped_around_each_run(agent_of, port, kind):
    server = Server()
    agent = agent_of(kind, health_check_server=server)
    agent.run()
    assert server.calls == ["start", "stop"]
    agent.run()
    assert server.calls == ["start", "stop"] * 2


@BOTH
@pytest.mark.slow
def test_a_subclass_makes_the_server(agent_of, kind):
    class Makes(kind):
        def _setup_healthcheck(self):
            self._health_check_server = Server()
            self._health_check_server.start()

    agent = agent_of(Makes)
    agent.run()
    assert agent._health_check_server.calls == ["start", "stop"]


@pytest.mark.parametrize("kind", [LocalElasticAgent, TakesPart, OwnLoop])
@pytest.mark.slow
def test_a_port_that_is_taken_ends_the_run(agent_of, port, kind):
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        agent_of(kind).run()


@pytest.mark.slow
def test_a_loop_of_ones_own_starts_the_server_once(tmp_path, port):
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/false", max_restarts=1)
    server = Server()
    options = {"health_check_server": server, "overrides": [f"run_dir={tmp_path}"]}
    agent = OwnLoop(spec, DefaultLogsSpecs(os.devnull), **options)
    assert agent.run().is_failed()
    assert server.calls == ["start", "stop"]


@pytest.mark.slow
def test_what_a_shutdown_of_ones_own_leaves_ends_with_the_run(tmp_path):
    class Leaves(OwnLoop):
        def _shutdown(self, *args, **options):
            """Without a word to the base class."""

    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true")
    server, logs = Server(), DefaultLogsSpecs(os.devnull)
    options = {"uninterruptible_state_timeout": 60, "overrides": [f"run_dir={tmp_path}"]}
    agent = Leaves(spec, logs, health_check_server=server, **options)
    assert agent.run().return_values == {0: None}
    assert server.calls == ["start", "stop"]
    assert "watchdogs" not in [thread.name for thread in threading.enumerate()]


class EndsIt(OwnLoop):
    """Ends the server itself with its workers, as torch's agent does."""

    def _shutdown(self, *args, **options):
        super()._shutdown(*args, **options)
        if self._health_check_server is not None:
            self._health_check_server.stop()
            self._health_check_server = None


@pytest.mark.slow
def test_a_server_that_a_subclass_has_ended_is_there_again_after_a_restart(tmp_path, port):
    class Asks(EndsIt):
        def look(self):
            assert ask(port)[0] == 200
            super().look()

    args = ("-c", "sleep 0.05; exit 1")
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/sh", args=args, max_restarts=1)
    agent = Asks(spec, DefaultLogsSpecs(os.devnull), overrides=[f"run_dir={tmp_path}"])
    assert agent.run().is_failed()
    assert agent._remaining_restarts == 0


class Asks(OwnLoop):
    """Probes itself while its workers run, and while it restarts them."""

    def look(self):
        self.port = self._health_check_server.port
        self.answers.append(("look", *ask(self.port)))
        super().look()

    def between_starts(self):
        self.answers.append(("between", *ask(self.port)))


@pytest.mark.slow
def test_a_loop_of_ones_own_answers_also_between_two_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_HEALTH_CHECK_PORT", "0")
    args = ("-c", 'sleep 0.05; exit "$((1 - TORCHELASTIC_RESTART_COUNT))"')
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/sh", args=args, max_restarts=1)
    agent = Asks(spec, DefaultLogsSpecs(os.devnull), overrides=[f"run_dir={tmp_path}"])
    agent.answers = []
    assert agent.run().return_values == {0: None}
    assert {(when, status) for when, status, _ in agent.answers} == {
        ("look", 200),
        ("between", 200),
    }
    assert agent.answers[0][2]["worker_state"] == "HEALTHY"
    with pytest.raises(urllib.error.URLError):
        ask(agent.port)


@pytest.mark.slow
def test_elastic_launch_takes_a_server(tmp_path):
    config = LaunchConfig(
        1, 1, 1, rdzv_backend="single",
        logs_specs=DefaultLogsSpecs(os.devnull), overrides=[f"run_dir={tmp_path}"],
    )  # fmt: skip
    server = Server()
    elastic_launch(config, nap, server)()
    assert server.calls == ["start", "stop"]


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_a_limit_for_sleepers_that_is_no_time(agent_of, monkeypatch, text):
    monkeypatch.setenv("TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", text)
    with pytest.raises(ValueError, match=f"must be a number of seconds, not '{text}'"):
        agent_of(LocalElasticAgent)
    assert agent_of(LocalElasticAgent, uninterruptible_state_timeout=3)


def test_a_port_that_is_none(simple, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_HEALTH_CHECK_PORT", "many")
    with pytest.raises(ValueError, match="must be a port, not 'many'"):
        simple([DONE]).run()

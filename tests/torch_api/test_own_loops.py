"""Subclasses as others write them for torch: loops of their own, members that they set, and
exceptions of every kind from what they override."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from scripted_agents import DONE, HEALTHY, Handler, Scripted, failed

from elastic_fsm.failures import SignalException
from elastic_fsm.group import RunResult, WorkerSpec, WorkerState
from elastic_fsm.problems import BadInput
from elastic_fsm.rendezvous.errors import RendezvousGracefulExitError
from elastic_fsm.server.interrupts import Interrupts
from elastic_fsm.server.launching import LaunchConfig
from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.server.simple import SimpleElasticAgent


def test_a_subclass_may_set_the_handler(simple):
    class Sets(Scripted):
        def __init__(self, spec, looks, **options):
            super().__init__(spec, looks, **options)
            self._rdzv_handler = spec.rdzv_handler = Handler()

    agent = simple([DONE], kind=Sets)
    assert agent.run().state is WorkerState.SUCCEEDED
    assert agent._rdzv_handler is agent.get_worker_group().spec.rdzv_handler


def test_a_spare_with_a_loop_of_its_own_ends_with_an_empty_success(simple):
    class Spare(Scripted):
        def _invoke_run(self, role="default"):
            raise RendezvousGracefulExitError("not needed")

    agent = simple([], kind=Spare)
    assert agent.run() == RunResult(WorkerState.SUCCEEDED)
    assert agent.trace == ["_shutdown(SIGTERM)"]


def _torchs_own():
    """An exception such as torch's signal handlers raise: its class is not ours."""
    error = type("SignalException", (Exception,), {})("told")
    error.sigval = signal.SIGHUP
    return error


def test_a_loop_of_a_subclass_is_told_to_stop_by_torchs_own_exception(simple):
    told = _torchs_own()

    class Own(Scripted):
        def _invoke_run(self, role="default"):
            raise told

    agent = simple([], kind=Own)
    with pytest.raises(type(told)):
        agent.run()
    assert agent.trace == ["_shutdown(SIGHUP)", "_shutdown(SIGTERM)"]


def test_the_exit_barrier_does_not_swallow_torchs_own_exception(simple, monkeypatch):
    told = _torchs_own()

    def interrupted(*_, **__):
        raise told

    monkeypatch.setattr("elastic_fsm.rendezvous.barrier_over_store.pass_exit_barrier", interrupted)
    agent = simple([])
    with pytest.raises(type(told)):
        agent._exit_barrier()
    assert agent._in_exit_barrier is False


class _Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("cannot be shown")


@pytest.mark.parametrize("method", ["_start_workers", "_monitor_workers", "_exit_barrier"])
def test_an_exception_that_cannot_be_shown_reaches_the_caller(simple, journal, method):
    error = _Unprintable()

    def fail(*_):
        raise error

    agent = simple([DONE], kind=type("Failing", (Scripted,), {method: fail}))
    with pytest.raises(_Unprintable) as caught:
        agent.run()
    assert caught.value is error
    assert journal().path[-1] == ("aborted", "UNKNOWN")


@pytest.mark.parametrize("method", ["_start_workers", "_monitor_workers", "_exit_barrier"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
def test_nobody_takes_a_group_that_was_left_for_a_healthy_one(simple, method, kind):
    def leave(*_):
        raise kind

    agent = simple([DONE], kind=type("Leaving", (Scripted,), {method: leave}))
    with pytest.raises(kind):
        agent.run()
    assert agent.trace[-1] == "_shutdown(SIGTERM)"
    assert agent.get_worker_group().state is WorkerState.UNKNOWN


def test_what_was_opened_is_given_back_when_the_run_cannot_begin(simple, monkeypatch):
    def no_loop(_):
        raise OSError("too many open files")

    simple([DONE]).run()
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr("elastic_fsm.sources.signals.Loop", no_loop)
    with pytest.raises(OSError, match="too many"):
        simple([DONE]).run()
    assert os.listdir("/proc/self/fd") == before


def test_a_signal_while_handlers_are_being_set_gives_them_back(monkeypatch):
    """The first of them is set and raises, the second one is not set yet."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]
    set_handler = signal.signal

    def set_and_send(number, handler):
        replaced = set_handler(number, handler)
        if handler not in before:
            signal.raise_signal(number)
        return replaced

    monkeypatch.setattr(signal, "signal", set_and_send)
    with pytest.raises(SignalException), Interrupts(["SIGUSR1", "SIGUSR2"]):
        pass
    assert [signal.getsignal(number) for number in numbers] == before


def test_an_unknown_sink_is_told_before_anything_starts(simple):
    agent = simple([DONE], event_log_handler="mine")
    with pytest.raises(ValueError, match="unknown event_log_handler 'mine'"):
        agent.run()
    assert agent.trace == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shutdown_timeout": "x"}, "shutdown_timeout must be a number of seconds, not 'x'"),
        ({"shutdown_timeout": float("nan")}, "shutdown_timeout must be a number of seconds"),
        ({"exit_barrier_timeout": None}, "exit_barrier_timeout must be a number of seconds"),
        ({"exit_barrier_timeout": 1e12}, "exit_barrier_timeout must not be negative, and must end"),
        ({"exit_barrier_timeout": float("inf")}, "exit_barrier_timeout must not be negative"),
        ({"logs_specs": "spawn"}, r"logs_specs must have a method reify\(\); 'spawn' has none"),
        ({"health_check_server": 5}, r"health_check_server must have a method start\(\)"),
        ({"log_line_prefix_template": 5}, "log_line_prefix_template must have a method"),
        ({"overrides": "machine=elastic"}, "overrides must be a list of texts"),
    ],
)
def test_arguments_that_cannot_work(options, message):
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true")
    with pytest.raises((TypeError, ValueError), match=message):
        LocalElasticAgent(spec, **options)


def test_a_spec_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"spec must be an elastic_fsm\.WorkerSpec, not None"):
        LocalElasticAgent(None)


class _Blocks(SimpleElasticAgent):
    """Gets no further than ``stage``, of its own four methods and one of the base class."""

    stage = ""

    def _maybe(self, stage):
        if stage == self.stage:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()

    def _start_workers(self, worker_group):
        self._maybe("start")
        return {worker.local_rank: 1 for worker in worker_group.workers}

    def _stop_workers(self, worker_group):
        self._maybe("stop")

    def _monitor_workers(self, worker_group):
        self._maybe("monitor")
        return failed() if self.stage == "stop" else DONE if self.stage else HEALTHY

    def _exit_barrier(self):
        self._maybe("barrier")

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        self.down = True


@pytest.mark.parametrize("stage", ["start", "stop", "monitor", "barrier"])
def test_a_signal_ends_whichever_method_blocks(tmp_path, journal, stage):
    spec = WorkerSpec("trainer", 2, Handler(), entrypoint="x", monitor_interval=0.001)
    agent = _Blocks(spec, overrides=[f"run_dir={tmp_path}"])
    agent.stage = stage
    with pytest.raises(SignalException):
        agent.run()
    assert agent.down
    assert journal().path[-1] == ("stopped", "STOPPED")


@pytest.mark.slow
def test_a_method_that_is_replaced_in_the_object_is_called(tmp_path):
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true")
    agent = LocalElasticAgent(spec, overrides=[f"run_dir={tmp_path}"])
    start, started = agent._start_workers, []

    def noted(worker_group):
        started.append(worker_group)
        return start(worker_group)

    agent._start_workers = noted
    assert agent.run().state is WorkerState.SUCCEEDED
    assert started == [agent.get_worker_group()]


STATIC = {"rdzv_backend": "static", "min_nodes": 2, "max_nodes": 2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rdzv_configs": "a=b"}, "rdzv_configs must be a dict, not 'a=b'"),
        ({"run_id": 5}, "run_id must be text, not 5"),
        ({"shutdown_timeout": "x"}, "shutdown_timeout must be a number of seconds, not 'x'"),
        ({"nproc_per_node": 0}, "nproc_per_node must be at least 1, not 0"),
        ({"nproc_per_node": True}, "nproc_per_node must be a whole number, not True"),
        ({"min_nodes": 0}, "min_nodes must be at least 1, not 0"),
        ({"min_nodes": "1"}, "min_nodes must be a whole number, not '1'"),
        ({"min_nodes": 2}, "max_nodes must be at least 2, not 1"),
        ({"rdzv_timeout": "x"}, "rdzv_timeout must be a number of seconds, not 'x'"),
        (
            STATIC | {"rdzv_configs": {"timeout": "x"}},
            r"'timeout'\] must be a number of seconds, not 'x'",
        ),
        (STATIC | {"rdzv_configs": {"rank": "x"}}, r"'rank'\] must be a whole number"),
        (STATIC | {"rdzv_configs": {"rank": 2}}, r"'rank'\]: there is no node 2 among 2"),
        (STATIC | {"rdzv_configs": {"rank": "-1"}}, r"'rank'\]: there is no node -1"),
        ({"local_addr": 5}, "local_addr must be text, not 5"),
        ({"virtual_local_rank": "no"}, "virtual_local_rank must be True or False, not 'no'"),
        ({"duplicate_stdout_filters": "abc"}, "stdout_filters must be a list of texts, not 'abc'"),
        ({"signals_to_handle": "SIGTERM,SIGFOO"}, "signals_to_handle: there is no signal 'SIGFOO'"),
        (
            {"signals_to_handle": "SIGKILL"},
            "signals_to_handle: SIGKILL cannot: it cannot be caught",
        ),
        ({"signals_to_handle": ["SIGTERM"]}, "signals_to_handle must be text, not "),
    ],
)
def test_configurations_that_cannot_work(given, message):
    with pytest.raises(ValueError, match=message):
        LaunchConfig(**{"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 1, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"rdzv_configs": {"rank": "1"}, "local_addr": ""},
        {"rdzv_backend": "mine", "rdzv_configs": {"timeout": None, "rank": "auto"}},
        {"rdzv_timeout": "60", "virtual_local_rank": 1, "duplicate_stderr_filters": ("a",)},
    ],
)
def test_configurations_as_others_write_them(given):
    assert LaunchConfig(nproc_per_node=1, **{**STATIC, **given}).max_nodes == 2


def test_a_working_directory_that_is_not_there_is_refused_by_the_agent(tmp_path):
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true", cwd=str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"^cwd: there is no folder '.*none'"):
        LocalElasticAgent(spec)


@pytest.mark.parametrize("text", ["soon", "-4"])
def test_a_time_of_the_environment_is_told_by_its_name(monkeypatch, text):
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", text)
    with pytest.raises(ValueError, match=r"^TORCH_ELASTIC_SHUTDOWN_TIMEOUT must"):
        LaunchConfig(1, 1, 1)


def test_a_program_is_not_told_of_a_command_line():
    spec = WorkerSpec("trainer", 1, entrypoint="/bin/true")
    agent = LocalElasticAgent(spec, overrides=["stop.signals=[SIGFOO]"])
    with pytest.raises(
        BadInput, match=r"^overrides: stop.signals=\[SIGFOO\]: stop.signals.0: there"
    ):
        agent.run()

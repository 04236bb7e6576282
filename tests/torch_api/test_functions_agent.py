"""Functions in an agent: their environment, their results by global rank, and restarts."""

from __future__ import annotations

import os

import local_programs as programs
import pytest

from elastic_fsm.group import WorkerSpec, WorkerState
from elastic_fsm.logs.specs import DefaultLogsSpecs
from elastic_fsm.server.local import LocalElasticAgent

pytestmark = pytest.mark.slow

WAYS = [("spawn", []), ("fork", []), ("forkserver", []), ("spawn", ["launcher=forkserver"])]


@pytest.fixture(params=WAYS, ids=["spawn", "fork", "forkserver", "launcher"])
def run(request, tmp_path):
    """``run(function, *args, max_restarts=1)``: the result of an agent with two workers."""
    method, overrides = request.param

    def start(function, *args, **fields):
        spec = WorkerSpec("trainer", 2, entrypoint=function, args=args, **fields)
        logs = DefaultLogsSpecs(str(tmp_path / "logs"))
        places = [f"run_dir={tmp_path / 'runs'}", *overrides]
        return LocalElasticAgent(spec, logs, start_method=method, overrides=places).run()

    return start


def test_a_function_has_the_environment_of_a_script(run):
    result = run(programs.environment, max_restarts=7)
    assert result.state is WorkerState.SUCCEEDED
    for rank, found in result.return_values.items():
        wanted = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "GROUP_RANK": "0",
            "ROLE_RANK": str(rank),
            "ROLE_NAME": "trainer",
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_WORLD_SIZE": "1",
            "ROLE_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "7",
            "TORCHELASTIC_USE_AGENT_STORE": "False",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "PATH": os.environ["PATH"],
        }
        assert {name: found.get(name) for name in wanted} == wanted
        assert int(found["MASTER_PORT"]) > 0
        assert found["TORCHELASTIC_RUN_ID"]
        assert found["TORCHELASTIC_ERROR_FILE"].endswith(f"attempt_0/{rank}/error.json")


def test_the_results_are_those_of_the_attempt_that_succeeded(run):
    result = run(programs.fails_once, "marker", max_restarts=1)
    assert result.return_values == {0: "1", 1: "1"}


def test_exceptions_can_be_raised_again(run):
    result = run(programs.fails_always, max_restarts=1)
    assert result.state is WorkerState.FAILED
    rank, failure = next(iter(result.failures.items()))
    assert failure.message == f"LookupError: lost in {rank}"
    with pytest.raises(LookupError, match=f"lost in {rank}"):
        raise failure.exception


def test_a_closure_is_refused_before_anything_starts(tmp_path):
    def agent(method):
        spec = WorkerSpec("trainer", 1, entrypoint=lambda: "inner")
        logs = DefaultLogsSpecs(str(tmp_path / "logs"))
        places = [f"run_dir={tmp_path / 'runs'}"]
        return LocalElasticAgent(spec, logs, start_method=method, overrides=places)

    with pytest.raises(ValueError, match=r"<lambda> cannot be started: .*start_method=fork"):
        agent("spawn").run()
    assert not list((tmp_path / "logs").iterdir())
    assert agent("fork").run().return_values == {0: "inner"}

"""Launch plans: from ranks to commands and environments, as data."""

from __future__ import annotations

import sys

import pytest

from elastic_fsm.group import WorkerGroup, WorkerSpec
from elastic_fsm.launchers.environment import worker_environment
from elastic_fsm.launchers.plan import Planner, command_of
from elastic_fsm.ranks import assign_ranks
from elastic_fsm.world import Node, World


def group_of(**spec):
    group = WorkerGroup(
        WorkerSpec(**{"role": "t", "local_world_size": 2, "entrypoint": "x"} | spec)
    )
    group.begin_attempt(4)
    size = group.spec.local_world_size
    nodes = (Node("a", "r", 3, "10.0.0.1"), Node("b", "t", size, "10.0.0.2"))
    world = World(1, nodes, 1, "10.0.0.1", 29500)
    group.form(world, assign_ranks(world))
    return group


def environment(group, local_rank=1, **changes):
    given = {"restart_count": 2, "run_id": "r", "error_file": None, "stop_signals": ["SIGTERM"]}
    worker = group.workers[local_rank]
    return worker_environment(group, worker, **{**given, "inherited": {}, **changes})


def test_the_environment_of_a_worker(tmp_path):
    assert environment(group_of(max_restarts=5), error_file=tmp_path) == {
        "RANK": "4",
        "LOCAL_RANK": "1",
        "GROUP_RANK": "1",
        "ROLE_RANK": "1",
        "ROLE_NAME": "t",
        "WORLD_SIZE": "5",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
        "TORCHELASTIC_RUN_ID": "r",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": str(tmp_path),
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def test_what_the_user_has_set_stays():
    names = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS", "PYTHONUNBUFFERED")
    found = environment(group_of(), inherited=dict.fromkeys(names, "0"))
    assert not set(names) & set(found)


def test_one_worker_may_use_all_processors():
    assert "OMP_NUM_THREADS" not in environment(group_of(local_world_size=1), 0)


def test_the_users_own_variables_come_last_and_those_of_a_rank_after_those_of_all():
    group = group_of(env={"A": "all", "RANK": "mine"}, worker_env={1: {"A": "one"}})
    assert [environment(group, rank)["A"] for rank in (0, 1)] == ["all", "one"]
    assert environment(group)["RANK"] == "mine"


@pytest.mark.parametrize(
    ("listed", "devices"),
    [({}, ["0", "1"]), ({"CUDA_VISIBLE_DEVICES": "4, GPU-7"}, ["4", "GPU-7"])],
)
def test_with_a_virtual_rank_each_worker_sees_one_device(listed, devices):
    group = group_of(virtual_local_rank=True)
    found = [environment(group, rank, inherited=listed) for rank in (0, 1)]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in found] == devices
    assert [env["LOCAL_RANK"] for env in found] == ["0", "0"]


def test_with_a_virtual_rank_there_must_be_a_device_for_everyone():
    with pytest.raises(ValueError, match="no device for local rank 1"):
        environment(group_of(virtual_local_rank=True), inherited={"CUDA_VISIBLE_DEVICES": "0"})


@pytest.mark.parametrize(
    ("spec", "command"),
    [
        ({"entrypoint": "prog", "args": ["a=b", "", 3]}, ["prog", "a=b", "", "3"]),
        ({"entrypoint": "t.py", "args": ["--x"]}, [sys.executable, "t.py", "--x"]),
        ({"entrypoint": "p.m", "module": True, "args": ["y"]}, [sys.executable, "-m", "p.m", "y"]),
        ({"entrypoint": "m.py", "module": True}, [sys.executable, "-m", "m.py"]),
    ],
)
def test_commands(spec, command, monkeypatch):
    monkeypatch.delenv("PYTHON_EXEC", raising=False)
    assert command_of(group_of(**spec).spec) == command


def test_another_interpreter(monkeypatch):
    monkeypatch.setenv("PYTHON_EXEC", "/opt/python")
    assert command_of(group_of(entrypoint="t.py").spec) == ["/opt/python", "t.py"]


def test_a_plan_names_every_file(tmp_path):
    group = group_of(args=["--rank=${local_rank}", "${other}"], cwd="/w", stdin=1)
    plan = Planner("r", tmp_path).plan(group, restart_count=0)
    assert plan.attempt == 4
    worker = plan.workers[1]
    folder = tmp_path / "attempt_4" / "1"
    assert (worker.stdout, worker.stderr) == (folder / "stdout.log", folder / "stderr.log")
    assert worker.error_file == folder / "error.json"
    assert worker.argv == ("x", "--rank=1", "${other}")
    assert (worker.global_rank, worker.cwd) == (4, "/w")
    assert [w.stdin for w in plan.workers] == [False, True]
    assert Planner("r", tmp_path).plan(group, restart_count=0) == plan


def test_rank_0_may_have_the_terminal(tmp_path):
    plan = Planner("r", tmp_path, log_mode="terminal").plan(group_of(), restart_count=0)
    first, second = plan.workers
    assert (first.stdout, first.stderr, first.stdin) == (None, None, True)
    assert first.error_file is not None
    assert second.stdout is not None
    assert not second.stdin


def test_without_a_folder_nothing_is_kept():
    worker = Planner("r", None).plan(group_of(), restart_count=0).workers[0]
    assert (worker.stdout, worker.stderr, worker.error_file) == (None, None, None)
    assert worker.env["TORCHELASTIC_ERROR_FILE"] == ""

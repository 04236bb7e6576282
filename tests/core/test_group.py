"""Specs, worlds, ranks, groups, rendezvous and ports."""

from __future__ import annotations

import json
import math
import socket
from pathlib import PurePath

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.facts import Facts
from elastic_fsm.group import WorkerExit, WorkerGroup, WorkerSpec, WorkerState
from elastic_fsm.loop import Loop
from elastic_fsm.ranks import assign_ranks
from elastic_fsm.rendezvous import ports
from elastic_fsm.rendezvous.ports import free_port, why_not_served
from elastic_fsm.rendezvous.standalone import Standalone
from elastic_fsm.world import Node, World

# nodes as (role, workers); the node asked for; then a line for each of its workers:
# local rank, global rank, role rank, world size, role world size.
TABLE = {
    "1x4": ([("t", 4)], 0, ["0 0 0 4 4", "1 1 1 4 4", "2 2 2 4 4", "3 3 3 4 4"]),
    "1+3, first": ([("t", 1), ("t", 3)], 0, ["0 0 0 4 4"]),
    "1+3, second": ([("t", 1), ("t", 3)], 1, ["0 1 1 4 4", "1 2 2 4 4", "2 3 3 4 4"]),
    "roles, first trainer": ([("t", 2), ("r", 1), ("t", 1)], 0, ["0 0 0 4 3", "1 1 1 4 3"]),
    "roles, reader": ([("t", 2), ("r", 1), ("t", 1)], 1, ["0 2 0 4 1"]),
    "roles, last trainer": ([("t", 2), ("r", 1), ("t", 1)], 2, ["0 3 2 4 3"]),
}


def world_of(nodes, node_rank):
    made = tuple(Node(f"n{i}", role, size, f"10.0.0.{i}") for i, (role, size) in enumerate(nodes))
    return World(3, made, node_rank, "10.0.0.0", 29500)


@pytest.mark.parametrize(("nodes", "node_rank", "expected"), TABLE.values(), ids=TABLE)
def test_ranks(nodes, node_rank, expected):
    workers = assign_ranks(world_of(nodes, node_rank))
    assert [
        f"{w.local_rank} {w.global_rank} {w.role_rank} {w.world_size} {w.role_world_size}"
        for w in workers
    ] == expected


def test_ranks_of_all_nodes_together_are_contiguous():
    nodes = [("t", 3), ("r", 2), ("t", 1), ("r", 4)]
    ranks = [w.global_rank for n in range(4) for w in assign_ranks(world_of(nodes, n))]
    assert ranks == list(range(10))


def test_a_world_survives_json():
    world = world_of([("t", 1), ("r", 2)], 1)
    assert World.from_dict(json.loads(json.dumps(world.to_dict()))) == world
    assert world.size == 3


# -- specs and groups --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"local_world_size": 0}, "local_world_size must be at least 1, not 0"),
        ({"max_restarts": -1}, "max_restarts must be at least 0, not -1"),
        ({"entrypoint": None}, "entrypoint must name a program or be a function"),
        ({"entrypoint": ""}, "entrypoint must name a program or be a function"),
        ({"entrypoint": ["a", "b"]}, "entrypoint must name a program or be a function"),
        ({"local_world_size": "2"}, "local_world_size must be a whole number, not '2'"),
        ({"max_restarts": 1.5}, "max_restarts must be a whole number, not 1.5"),
        ({"monitor_interval": "x"}, "monitor_interval must be a number of seconds, not 'x'"),
        ({"monitor_interval": 0}, "monitor_interval must be more than 0, not 0"),
        ({"monitor_interval": True}, "monitor_interval must be a number of seconds, not True"),
        ({"role": None}, "role must be text, not None"),
        ({"args": "abc"}, "args must be a list or a tuple, not 'abc'"),
        ({"args": None}, "args must be a list or a tuple, not None"),
        ({"rdzv_handler": "c10d"}, "rdzv_handler must be a RendezvousHandler, not 'c10d'"),
        ({"master_port": "http"}, "master_port must be a whole number, not 'http'"),
        ({"stdin": 1}, "stdin: there is no local rank 1; they are 0 to 0"),
        ({"worker_env": {9: {}}}, "worker_env: there is no local rank 9"),
        ({"env": {"A": 1}}, "env must hold texts, not 'A': 1"),
        ({"worker_env": {0: {"A=": ""}}}, r"worker_env\[0\]: no environment can hold 'A='"),
        ({"local_world_size": True}, "local_world_size must be a whole number, not True"),
        (
            {"monitor_interval": math.inf},
            "monitor_interval must not be negative, and must end: inf",
        ),
        ({"monitor_interval": math.nan}, "monitor_interval must be a number of seconds, not nan"),
        ({"monitor_interval": 1e300}, "monitor_interval must not be negative, and must end: 1e"),
        ({"duplicate_stdout_filters": [5]}, "duplicate_stdout_filters must be a list of texts"),
        ({"duplicate_stderr_filters": "abc"}, "duplicate_stderr_filters must be a list of texts"),
        ({"entrypoint": "a\0b"}, "entrypoint: no process can be given 'a"),
        ({"role": "a\0b"}, "role: no process can be given 'a"),
        ({"args": ["a\0b"]}, r"args\[0\]: no process can be given 'a"),
        ({"args": ["a", "\ud800"]}, r"args\[1\]: no process can be given"),
        ({"args": [PurePath("a\0b")]}, r"args\[0\]: no process can be given 'a"),
        ({"env": None}, "env must be a mapping, not None"),
        ({"env": {"A": "\0"}}, "env: no environment can hold 'A'"),
        ({"env": {"A": "\ud800"}}, "env: no environment can hold 'A'"),
        ({"worker_env": [1]}, r"worker_env must be a mapping, not \[1\]"),
        ({"worker_env": {0: "A"}}, r"worker_env\[0\] must be a mapping, not 'A'"),
        ({"master_port": 70000}, "master_port must be at most 65535, not 70000"),
        ({"master_port": -1}, "master_port must be at least 0, not -1"),
        ({"master_addr": 5}, "master_addr must be text, not 5"),
        ({"master_addr": ""}, "master_addr must name a host, not ''"),
        ({"master_addr": "a\0"}, "master_addr: no process can be given 'a"),
        ({"local_addr": 5}, "local_addr must be text, not 5"),
        ({"virtual_local_rank": "x"}, "virtual_local_rank must be True or False, not 'x'"),
        ({"module": "x"}, "module must be True or False, not 'x'"),
        ({"cwd": 5}, "cwd must be text, not 5"),
        ({"cwd": "a\0"}, "cwd: no process can be given 'a"),
    ],
)
def test_specs_that_cannot_work(change, message):
    with pytest.raises(ValueError, match=message):
        WorkerSpec(**{"role": "t", "local_world_size": 1, "entrypoint": "x", **change})


@pytest.mark.parametrize(
    "given",
    [
        {"args": (1, "\udcff", PurePath("x"), None)},
        {"entrypoint": print, "args": ("\0", "\ud800", object())},
        {"master_port": 0, "master_addr": "::1", "local_addr": ""},
        {"virtual_local_rank": 1, "duplicate_stdout_filters": ("a", "")},
        {"env": {"A": "\udcff"}, "cwd": PurePath("/")},
    ],
)
def test_odd_values_that_work(given):
    assert WorkerSpec(**{"role": "", "local_world_size": 1, "entrypoint": "x", **given})


def test_a_path_and_an_odd_callable_are_entrypoints():
    class Empty:
        def __call__(self): ...

        def __len__(self):
            return 0

    assert WorkerSpec("t", 1, entrypoint=PurePath("/bin/true")).entrypoint == "/bin/true"
    assert callable(WorkerSpec("t", 1, entrypoint=Empty()).entrypoint)


def test_names_of_entrypoints():
    def train(): ...

    assert WorkerSpec("t", 1, entrypoint="/usr/bin/env").get_entrypoint_name() == "env"
    assert WorkerSpec("t", 1, entrypoint=train).get_entrypoint_name().endswith("<locals>.train")


def test_states_in_which_workers_run():
    running = [state.value for state in WorkerState if WorkerState.is_running(state)]
    assert running == ["HEALTHY", "UNHEALTHY"]


def test_a_group_from_one_attempt_to_the_next():
    group = WorkerGroup(WorkerSpec("t", 2, entrypoint="x"))
    assert (group.attempt, group.state, group.alive) == (-1, WorkerState.INIT, ())
    assert [w.global_rank for w in group.workers] == [-1, -1]
    group.begin_attempt(0)
    world = world_of([("t", 1), ("t", 2)], 1)
    group.form(world, assign_ranks(world))
    assert (group.group_rank, group.group_world_size) == (1, 2)
    assert (group.master_addr, group.master_port) == ("10.0.0.0", 29500)
    group.note_started({0: 100, 1: 101})
    assert group.alive == (0, 1)
    assert repr(group.workers[0]) == "Worker(local_rank=0, global_rank=1, id=100)"
    first = WorkerExit(1, 2, 101, -9, 1.0)
    group.note_exit(first)
    group.note_exit(WorkerExit(1, 2, 101, 0, 2.0))
    assert (group.exits, group.exit_codes, group.stopped) == ({1: first}, {1: -9}, ())
    assert group.alive == (0,)
    group.note_exit(WorkerExit(0, 1, 100, 0, 3.0, stopped_by_agent=True))
    assert (group.exit_codes, group.stopped) == ({1: -9, 0: 0}, (0,))
    group.begin_attempt(1)
    assert (group.exits, group.alive, group.world, group.master_addr) == ({}, (), None, None)
    assert (group.exit_codes, group.stopped) == ({}, ())


def test_an_address_of_the_users_own_comes_first():
    group = WorkerGroup(WorkerSpec("t", 1, entrypoint="x", master_addr="head", master_port=1234))
    world = world_of([("t", 1)], 0)
    group.form(world, assign_ranks(world))
    assert (group.master_addr, group.master_port) == ("head", 1234)


@pytest.mark.parametrize(
    ("code", "stopped", "failed", "succeeded"),
    [
        (0, False, False, True),
        (0, True, False, False),
        (1, False, True, False),
        (-15, True, False, False),
    ],
)
def test_an_exit_is_a_success_a_cause_or_a_consequence(code, stopped, failed, succeeded):
    ended = WorkerExit(0, 0, 1, code, 0.0, stopped_by_agent=stopped)
    assert (ended.failed, ended.succeeded) == (failed, succeeded)


def test_facts_name_the_failures():
    facts = Facts(exit_codes={2: -9, 0: 0, 1: -15}, stopped=(1,))
    assert facts.failures == {2: -9}


# -- rendezvous on one node --------------------------------------------------------------------


@pytest.fixture
def loop():
    made = Loop(SystemClock())
    yield made
    made.close()


NODE = Node("n", "t", 2, "127.0.0.1")


def test_one_node_agrees_with_itself_at_once(loop):
    found = iter([5000, 5001])
    rendezvous = Standalone(loop, find_port=lambda address: next(found))
    for attempt in (0, 1):
        rendezvous.join(NODE, attempt)
        event = loop.next_event()
        assert (event.name, event.attempt) == ("rendezvous_completed", attempt)
        world = World.from_dict(event.data["world"])
        assert world == World(attempt, (NODE,), 0, "127.0.0.1", 5000 + attempt)
    rendezvous.barrier(1)
    event = loop.next_event()
    assert (event.name, event.attempt) == ("barrier_passed", 1)
    rendezvous.leave()
    rendezvous.close()


def test_without_a_port_there_is_no_rendezvous(loop):
    def none_left(address):
        raise OSError("all in use")

    Standalone(loop, find_port=none_left).join(NODE, 3)
    event = loop.next_event()
    assert (event.name, event.attempt) == ("rendezvous_failed", 3)
    assert event.data == {"reason": "no free port on 127.0.0.1: all in use"}


def test_free_ports_can_be_bound_and_are_not_the_kernels_own():
    chosen = {free_port("127.0.0.1") for _ in range(20)}
    assert len(chosen) > 10
    assert not chosen & set(ports._ephemeral_ports())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", chosen.pop()))


def test_a_port_where_somebody_listens_is_not_served():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert why_not_served(port) == "Address already in use"
    assert why_not_served(port) == ""


def test_what_lingers_of_a_server_is_no_hindrance():
    """The side that closes first keeps the port in TIME_WAIT, as a worker that was restarted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    with socket.socket() as strict, pytest.raises(OSError, match="in use"):
        strict.bind(("127.0.0.1", port))
    assert why_not_served(port) == ""


def test_a_port_in_use_is_not_chosen(monkeypatch):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        port = busy.getsockname()[1]
        monkeypatch.setattr(ports, "_ephemeral_ports", lambda: range(0))
        monkeypatch.setattr(ports.random, "sample", lambda *_: [port])
        assert free_port("127.0.0.1") != port


def test_no_free_port_on_an_address_that_is_not_ours():
    with pytest.raises(OSError, match=r"assign|address"):
        free_port("192.0.2.1")


def test_ports_of_the_kernel_where_it_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(ports, "Path", lambda name: tmp_path / "absent")
    assert ports._ephemeral_ports() == range(32768, 61000)

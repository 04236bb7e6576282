"""torch's own handlers under the port: nodes are processes, on the loopback interface.

Whatever is waited for here ends by the handlers' own timeouts, which are given short.
"""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_fsm.rendezvous.ports import free_port
from elastic_fsm.world import World

sys.path.insert(0, str(Path(__file__).parent))

from handler_node import run_agent, run_coarse_node, run_node

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

# Forked from a process that has imported torch: only the first node takes seconds to start.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch.distributed.elastic.rendezvous"])

# A node that waits looks once in a second whether it may come in; the last call is longer.
QUICK = {"last_call_timeout": 5, "join_timeout": 60, "keep_alive_interval": 1, "read_timeout": 20}


class Remote:
    """A node in a process of its own."""

    def __init__(self, name, run, parameters, options):
        self.name = name
        self.pipe, theirs = PROCESSES.Pipe()
        arguments = (name, theirs, parameters, options)
        self.process = PROCESSES.Process(target=run, args=arguments)
        self.process.start()
        theirs.close()

    def do(self, *words):
        self.pipe.send(words)

    def take(self, name):
        """The next event of that name; membership may be told more than once."""
        while (event := self.pipe.recv()).name != name:
            assert event.name == "membership_changed", event
        return event

    def world(self):
        return World.from_dict(self.take("rendezvous_completed").data["world"])

    def news(self):
        """Why the group is to form anew."""
        return self.take("membership_changed").data["reason"]

    def wait_for(self, change):
        """The line that an agent logs for that change of state."""
        while not (line := self.pipe.recv().data["line"]).startswith(change):
            pass
        return line

    def close(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


@pytest.fixture
def nodes():
    """Start nodes: ``nodes("ab", backend, endpoint, min, max, option=…)``; all get ready."""
    remotes = []

    def start(names, backend, endpoint, least, most, *, run=run_node, **options):
        parameters = (backend, endpoint, "run", least, most)
        new = [Remote(name, run, parameters, options) for name in names]
        remotes.extend(new)
        for each in new:
            each.take("ready")
        return new

    yield start
    for each in reversed(remotes):
        each.close()


@pytest.fixture(params=["tcp", "file"])
def c10d(request, nodes, tmp_path):
    """Start nodes over c10d, with either store: ``c10d("ab", min, max, option=…)``."""
    is_file = request.param == "file"
    endpoint = str(tmp_path / "store") if is_file else f"127.0.0.1:{free_port('127.0.0.1')}"
    store = {"store_type": request.param}
    return lambda names, least, most, **options: nodes(
        names, "c10d", endpoint, least, most, **{**QUICK, **store, **options}
    )


def joined(attempt, *remotes):
    for each in remotes:
        each.do("join", attempt)
    return agreed(*remotes)


def agreed(*remotes):
    """The world, once all have the same, each with a rank of its own."""
    worlds = [each.world() for each in remotes]
    assert {world.node_rank for world in worlds} == set(range(len(remotes)))
    for world, remote in zip(worlds, remotes, strict=True):
        assert world.nodes[world.node_rank].node_id == remote.name
    records = [{**world.to_dict(), "node_rank": 0} for world in worlds]
    assert records == [records[0]] * len(remotes)
    return worlds[0]


def test_nodes_come_and_go_and_the_group_forms_anew(c10d):
    """Two form a group, a third joins them, one fails and comes again, one leaves."""
    a, b = c10d("ab", 2, 3)
    worlds = [joined(0, a, b)]
    (c,) = c10d("c", 2, 3)
    c.do("join", 0)
    assert a.news() == "nodes that wait to join: 1"
    a.do("join", 1)
    assert b.news() in ("nodes that wait to join: 1", "a joins the next round")
    b.do("join", 1)
    worlds.append(agreed(a, b, c))
    b.do("join", 2)
    for each in (a, c):
        assert each.news() in (
            "nodes that wait to join: 1",
            "a joins the next round",
            "b joins the next round",
        )
        each.do("join", 2)
    worlds.append(agreed(a, b, c))
    c.do("leave")
    c.do("quit")
    for each in (a, b):
        assert each.news()
        each.do("join", 3)
    worlds.append(agreed(a, b))
    assert [len(world.nodes) for world in worlds] == [2, 3, 3, 2]
    assert [world.round for world in worlds] == [0, 1, 2, 3]
    assert len({world.master_port for world in worlds}) == 4, "a port of its own for each round"
    assert {world.master_addr for world in worlds} == {"127.0.0.1"}
    c.process.join()
    assert c.process.exitcode == 0


def test_an_agent_that_is_killed_is_missed_though_no_worker_fails(nodes, tmp_path):
    store = {"store_type": "file", "run_dir": str(tmp_path), **QUICK}
    agents = nodes("ab", "c10d", str(tmp_path / "store"), 2, 2, run=run_agent, **store)
    for each in agents:
        each.wait_for("STARTING -> HEALTHY")
    left, killed = agents
    killed.process.kill()
    line = left.wait_for("HEALTHY -> REFORMING")
    assert re.search(r"node [01] \(.+\) has sent no sign of life for [\d.]+ s", line)
    left.wait_for("REFORMING -> JOINING")


def test_a_node_that_comes_new_is_let_in_by_agents_that_block(c10d):
    """torch's own agents would leave it waiting for an address that nobody writes."""
    (old,) = c10d("a", 1, 2, run=run_coarse_node)
    old.do("join", 0)
    before = old.take("agreed").data
    (new,) = c10d("b", 1, 2, run=run_coarse_node)
    new.do("join", 0)
    old.do("join", 1)
    after = [each.take("agreed").data for each in (old, new)]
    assert sorted(after[0]["ranks"] + after[1]["ranks"]) == [0, 1, 2, 3]
    assert before["place"] != after[0]["place"] == after[1]["place"]


def test_all_are_done_together_and_a_closed_run_is_over(c10d):
    a, b = c10d("ab", 2, 2)
    joined(0, a, b)
    a.do("barrier", 0)
    b.do("barrier", 0)
    assert [each.take("barrier_passed").attempt for each in (a, b)] == [0, 0]
    b.do("shutdown")
    assert b.take("shut_down").data["worked"] is True
    a.do("join", 1)
    assert a.take("rendezvous_failed").data["reason"].startswith("the run is closed")


def test_a_spare_node_that_is_not_needed_has_finished(c10d):
    (a,) = c10d("a", 1, 1)
    joined(0, a)
    (spare,) = c10d("s", 1, 1)
    spare.do("join", 0)
    found = 0
    while not found:  # until the spare has come; it tells nobody
        a.do("count_spares")
        found = a.take("counted").data["spares"]
    a.do("end")
    assert spare.take("run_finished").attempt == 0


def test_too_few_nodes_are_a_failure_with_a_reason(c10d):
    (a,) = c10d("a", 2, 2, join_timeout=1)
    a.do("join", 0)
    assert a.take("rendezvous_failed").data["reason"] == "too few nodes came in time"


def test_static_nodes_form_their_group_anew(nodes):
    """torch's static handler gives the same store every time, and tells nobody anything."""
    port = free_port("127.0.0.1")

    def start(name, rank):
        return nodes(name, "static", f"127.0.0.1:{port}", 2, 2, rank=rank, timeout=60)[0]

    a, b = start("a", 0), start("b", "1")  # text, as it comes from a command line
    worlds = [joined(0, a, b)]
    b.do("join", 1)
    assert a.news() == "b joins the next round"
    a.do("join", 1)
    worlds.append(agreed(a, b))
    b.close()
    other = start("B", 1)
    other.do("join", 0)
    assert a.news() == "B is back"
    a.do("join", 2)
    worlds.append(agreed(a, other))
    assert [world.round for world in worlds] == [0, 1, 2]
    assert [node.node_id for node in worlds[-1].nodes] == ["a", "B"]
    assert len({port, *(world.master_port for world in worlds)}) == 4
    a.do("barrier", 2)
    other.do("barrier", 0)
    a.take("barrier_passed")
    other.take("barrier_passed")


STUCK = """
import threading
from elastic_fsm.clock import SystemClock
from elastic_fsm.loop import Loop
from elastic_fsm.rendezvous.handler import RendezvousParameters
from elastic_fsm.rendezvous.handler_registry import get_rendezvous_handler
from elastic_fsm.rendezvous.over_handler import HandlerRendezvous
from elastic_fsm.world import Node

class Told:
    def next_rendezvous(self):
        entered.set()
        return handler.next_rendezvous()

params = RendezvousParameters("static", "127.0.0.1:{port}", "run", 2, 2, rank=1)
handler, entered = get_rendezvous_handler(params), threading.Event()
port = HandlerRendezvous(Loop(SystemClock()), Told())
port.join(Node("n", "trainer", 1, "127.0.0.1"), 0)
entered.wait()
port.close()
"""


def test_a_process_whose_thread_waits_inside_of_torch_ends():
    """The thread is left to itself; it must neither keep the process nor make its end a crash."""
    code = STUCK.format(port=free_port("127.0.0.1"))
    subprocess.run([sys.executable, "-c", code], check=True)

"""What nodes agree on through the store that they share: ranks, meeting place, the end."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from elastic_fsm.group import WorkerSpec
from elastic_fsm.rendezvous.barrier_over_store import pass_exit_barrier
from elastic_fsm.rendezvous.handler import RendezvousInfo, RendezvousStoreInfo
from elastic_fsm.rendezvous.hash_store import HashStore
from elastic_fsm.rendezvous.master_over_store import let_newcomers_in, own_address
from elastic_fsm.rendezvous.ranks_over_store import exchange_ranks
from elastic_fsm.rendezvous.store_waiting import Abandoned, wait_for_keys

SHORT = timedelta(milliseconds=20)


@pytest.fixture
def stores(tmp_path):
    """Ours, and those of torch, all with an impatient default."""

    def make(kind):
        if kind == "ours":
            return HashStore(SHORT)
        dist = pytest.importorskip("torch.distributed")
        if kind == "file":
            return dist.PrefixStore("x", dist.FileStore(str(tmp_path / "store"), -1))
        return dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=5))

    return make


ANY_STORE = pytest.mark.parametrize(
    "kind", ["ours", *(pytest.param(k, marks=pytest.mark.torch) for k in ("tcp", "file"))]
)


def together(*calls):
    """All at the same time; what each returns."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
        return [future.result() for future in futures]


def spec(size=2, role="trainer"):
    return WorkerSpec(role, size, entrypoint="train")


# -- the store in memory -----------------------------------------------------------------------


@ANY_STORE
def test_the_methods_mean_what_they_mean_in_torch(stores, kind):
    store = stores(kind)
    store.set("text", "a")
    store.set("bytes", b"b")
    assert store.multi_get(["text", "bytes"]) == [b"a", b"b"]
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.get("y") == b"2"
    assert [store.add("n", 0), store.add("n", 2), store.add("x", 1)] == [0, 2, 2]
    assert store.get("n") == b"2"
    assert store.compare_set("new", "", "v") == b"v"
    assert store.compare_set("new", "wrong", "w") == b"v"
    assert store.compare_set("new", "v", "w") == b"w"
    assert store.compare_set("nowhere", "wrong", "w") == b"wrong"
    assert (store.check(["new", "n"]), store.check(["new", "nowhere"])) == (True, False)
    store.wait(["new"])
    with pytest.raises((TimeoutError, RuntimeError)):
        store.wait(["nowhere"], SHORT)


def test_reading_waits_for_the_writer():
    store = HashStore()
    assert together(lambda: store.get("key"), lambda: store.set("key", "v")) == [b"v", None]


def test_reading_what_nobody_writes_ends():
    store = HashStore()
    assert store.timeout == timedelta(minutes=5)
    store.set_timeout(SHORT)
    store.set("there", "v")
    with pytest.raises(TimeoutError, match=r"nobody wrote a, b within 0\.02 s"):
        store.multi_get(["there", "a", "b"])


def test_keys_can_be_deleted():
    store = HashStore()
    store.set("key", "v")
    assert (store.num_keys(), store.delete_key("key"), store.delete_key("key")) == (1, True, False)
    assert not store.check(["key"])


# -- waiting -----------------------------------------------------------------------------------


def test_waiting_names_what_is_missing():
    store = HashStore(SHORT)
    store.set("a", "")
    with pytest.raises(TimeoutError, match=r"nobody wrote b within 0\.02 s"):
        wait_for_keys(store, ["a", "b"])
    with pytest.raises(TimeoutError, match=r"k0, k1, .*k7, … within 0 s"):
        wait_for_keys(store, [f"k{n}" for n in range(20)], timeout=0)


def test_waiting_can_be_abandoned():
    stop = threading.Event()
    stop.set()
    with pytest.raises(Abandoned):
        wait_for_keys(HashStore(), ["never"], stop=stop)


class Counted(HashStore):
    looks = 0

    def check(self, keys):
        self.looks += 1
        return super().check(keys)


def test_looks_become_rarer():
    store = Counted()
    with pytest.raises(TimeoutError):
        wait_for_keys(store, ["never"], timeout=0.3, interval=0.1)
    assert store.looks < 12


@pytest.mark.torch
def test_a_waiting_node_leaves_the_store_to_the_others():
    """torch's own wait would hold the connection, and with it the heartbeat of the handler."""
    dist = pytest.importorskip("torch.distributed")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True)
    stop = threading.Event()
    waiting = threading.Thread(target=lambda: _wait_forever(store, stop))
    waiting.start()
    try:
        begun = time.monotonic()
        for n in range(20):
            store.set("heartbeat", str(n))
        assert time.monotonic() - begun < store.timeout.total_seconds() / 10
        assert waiting.is_alive()
    finally:
        stop.set()
        waiting.join()


def _wait_forever(store, stop):
    with pytest.raises(Abandoned):
        wait_for_keys(store, ["never"], stop=stop)


# -- ranks -------------------------------------------------------------------------------------

NODES = [("trainer", 2), ("reader", 1), ("trainer", 3), ("reader", 2)]


def numbers(workers):
    return [
        (w.local_rank, w.global_rank, w.role_rank, w.world_size, w.role_world_size) for w in workers
    ]


@ANY_STORE
def test_ranks_count_nodes_in_order_and_roles_apart(stores, kind):
    store = stores(kind)
    if kind == "ours":
        store.set_timeout(timedelta(minutes=1))
    calls = [
        lambda rank=rank, role=role, size=size: numbers(
            exchange_ranks(store, rank, len(NODES), spec(size, role))
        )
        for rank, (role, size) in enumerate(NODES)
    ]
    assert together(*calls) == [
        [(0, 0, 0, 8, 5), (1, 1, 1, 8, 5)],
        [(0, 2, 0, 8, 3)],
        [(0, 3, 2, 8, 5), (1, 4, 3, 8, 5), (2, 5, 4, 8, 5)],
        [(0, 6, 1, 8, 3), (1, 7, 2, 8, 3)],
    ]
    assert json.loads(store.get("torchelastic/role_info/1")) == {
        "role": "reader", "rank": 1, "local_world_size": 1,
    }  # fmt: skip
    assert json.loads(store.get("torchelastic/assigned_ranks/2")) == [3, 8, 2, 5]


@pytest.mark.torch
@pytest.mark.parametrize("ours", [(0, 2), (1, 3), ()])
def test_nodes_of_torch_take_part(stores, ours):
    """Whichever nodes are torch's: keys, values and ranks are the same."""
    agent = pytest.importorskip("torch.distributed.elastic.agent.server").SimpleElasticAgent
    server = stores("tcp")
    # A connection for each node: while torch's own code waits nobody else gets through.
    connections = [server.clone() for _ in NODES]

    def ask(rank):
        store = connections[rank]
        mine = spec(NODES[rank][1], NODES[rank][0])
        if rank in ours:
            return numbers(exchange_ranks(store, rank, len(NODES), mine))
        return numbers(agent._assign_worker_ranks(None, store, rank, len(NODES), mine))

    found = together(*(lambda rank=rank: ask(rank) for rank in range(len(NODES))))
    assert [worker[1] for node in found for worker in node] == list(range(8))
    assert found[2] == [(0, 3, 2, 8, 5), (1, 4, 3, 8, 5), (2, 5, 4, 8, 5)]


def test_identical_nodes_ask_nobody(monkeypatch):
    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")
    assert numbers(exchange_ranks(None, 2, 4, spec(2))) == [(0, 4, 4, 8, 8), (1, 5, 5, 8, 8)]


def test_a_node_that_says_nothing_is_named():
    with pytest.raises(TimeoutError, match="nobody wrote torchelastic/role_info/1 within 0 s"):
        exchange_ranks(HashStore(), 0, 2, spec(), timeout=0)
    with pytest.raises(TimeoutError, match="nobody wrote torchelastic/assigned_ranks/1"):
        exchange_ranks(HashStore(SHORT), 1, 2, spec())


# -- the meeting place -------------------------------------------------------------------------


def test_torchs_keys_let_a_newcomer_in_but_are_not_changed():
    """Others of the round may have read them already."""
    store = HashStore(SHORT)
    let_newcomers_in(store, "here", 7)
    assert RendezvousStoreInfo.build(1, store, None) == RendezvousStoreInfo("here", 7)
    let_newcomers_in(store, "there", 8)
    assert RendezvousStoreInfo.build(1, store, None) == RendezvousStoreInfo("here", 7)


@pytest.mark.parametrize("place", [None, RendezvousStoreInfo("here", 7)])
def test_the_handler_may_know_the_own_address(place):
    info = RendezvousInfo(HashStore(), 0, 1, place)
    assert own_address(info) == ("here" if place else "")


# -- the exit barrier --------------------------------------------------------------------------


@ANY_STORE
def test_the_barrier_is_passed_when_all_came(stores, kind):
    store = stores(kind)
    assert together(*[lambda: pass_exit_barrier(store, 3, 60, interval=0.01)] * 3) == [None] * 3
    assert store.get("torchelastic/agent/terminal_state/num_members") == b"3"
    assert store.check(["torchelastic/agent/terminal_state/last_member"])


@pytest.mark.torch
def test_the_barrier_is_that_of_torch(stores):
    util = pytest.importorskip("torch.distributed.elastic.utils.store")
    store = stores("tcp")
    other = store.clone()
    together(
        lambda: pass_exit_barrier(store, 2, 60, interval=0.01),
        lambda: util.barrier(other, 2, "torchelastic/agent/terminal_state", barrier_timeout=60),
    )


def test_a_late_node_is_counted():
    with pytest.raises(TimeoutError, match="1 of 2 nodes are done after 0 s"):
        pass_exit_barrier(HashStore(), 2, 0)


def test_the_barrier_can_be_abandoned():
    stop = threading.Event()
    stop.set()
    with pytest.raises(Abandoned):
        pass_exit_barrier(HashStore(), 2, 60, stop=stop)

"""The port over a handler that blocks, with handlers whose answers are written here."""

from __future__ import annotations

import json
import queue
import re
import threading
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.failures import ChildFailedError
from elastic_fsm.loop import Loop
from elastic_fsm.rendezvous.closing import shut_down
from elastic_fsm.rendezvous.errors import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousTimeoutError,
)
from elastic_fsm.rendezvous.handler import RendezvousInfo, RendezvousStoreInfo
from elastic_fsm.rendezvous.hash_store import HashStore
from elastic_fsm.rendezvous.heartbeat import Pace
from elastic_fsm.rendezvous.lost_store import place_of
from elastic_fsm.rendezvous.over_handler import HandlerRendezvous
from elastic_fsm.rendezvous.single import SingleNodeHandler
from elastic_fsm.server import launching
from elastic_fsm.testing.contracts import RendezvousContract
from elastic_fsm.world import Node, World

PATIENCE = 30.0
CAME = "torchelastic/agent/terminal_state/num_members"


class TestContract(RendezvousContract):
    quiet = 0.05

    def make_rendezvous(self, loop):
        return HandlerRendezvous(loop, SingleNodeHandler(), interval=0.001)


class Answering:
    """A handler of nothing but the methods that are asked for.

    ``answers`` to ``next_rendezvous`` come in order, the last again and again: an error to raise,
    a function to call, an info. ``waiting`` is what ``num_nodes_waiting`` says, or raises.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.waiting = 0
        self.looks = 0
        self.looked = threading.Event()

    def next_rendezvous(self):
        answer = self.answers.pop(0) if self.answers[1:] else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def num_nodes_waiting(self):
        self.looks += 1
        self.looked.set()
        if isinstance(self.waiting, Exception):
            raise self.waiting
        return self.waiting


class Seat:
    """One node with a loop of its own."""

    def __init__(self, name, handler, **options):
        self.node = Node(name, "trainer", 2, f"address of {name}")
        self.loop = Loop(SystemClock())
        self.handler = handler
        self.told = []
        options = {"interval": 0.001, "tell": self.told.append, **options}
        self.port = HandlerRendezvous(self.loop, handler, **options)

    def join(self, attempt=0):
        self.port.join(self.node, attempt)

    def event(self):
        overdue = Event("overdue")
        timer = self.loop.call_later(PATIENCE, lambda: self.loop.post(overdue))
        event = self.loop.next_event()
        timer.cancel()
        return event

    def take(self, name):
        event = self.event()
        assert event.name == name, event
        return event

    def world(self):
        return World.from_dict(self.take("rendezvous_completed").data["world"])

    def is_silent(self):
        """Nothing came up to now."""
        asked = Event("asked")
        self.loop.post(asked)
        return self.event() is asked

    def look_again(self):
        """Wait until the thread has looked twice, so that one look began after this call."""
        for _ in range(2):
            self.handler.looked.clear()
            assert self.handler.looked.wait(PATIENCE)


@pytest.fixture
def seat():
    seats = []

    def make(name, handler, **options):
        seats.append(Seat(name, handler, **options))
        return seats[-1]

    yield make
    for each in seats:
        each.port.close()
        each.loop.close()


def info(store, rank, size):
    return RendezvousInfo(store, rank, size, RendezvousStoreInfo(f"host of {rank}", 1))


@pytest.fixture
def pair(seat):
    """Two nodes whose handlers give the same store in every round, as torch's static one."""
    store = HashStore()
    return [seat(f"n{rank}", Answering(info(store, rank, 2))) for rank in (0, 1)]


def agreed(*seats, attempt=0):
    """All join; what each has agreed on."""
    for each in seats:
        each.join(attempt)
    return [each.world() for each in seats]


# -- agreeing ----------------------------------------------------------------------------------


def test_nodes_agree_on_one_record(pair):
    zero, one = agreed(*pair)
    assert [node.node_id for node in zero.nodes] == ["n0", "n1"]
    assert (zero.node_rank, one.node_rank) == (0, 1)
    assert zero.nodes == one.nodes == tuple(each.node for each in pair)
    assert (zero.round, zero.master_addr) == (0, "host of 0")
    assert (one.round, one.master_addr, one.master_port) == (0, "host of 0", zero.master_port)
    assert zero.master_port != 1, "the agents' own store is not for the workers"


def test_without_a_name_from_the_handler_node_0_has_its_own(seat):
    alone = seat("n0", Answering(RendezvousInfo(HashStore(), 0, 1, None)))
    assert agreed(alone)[0].master_addr == "address of n0"


def test_each_round_has_a_new_port_and_number_though_the_store_stays(pair):
    worlds = [agreed(*pair, attempt=attempt) for attempt in range(3)]
    assert [(zero.round, one.round) for zero, one in worlds] == [(0, 0), (1, 1), (2, 2)]
    ports = [zero.master_port for zero, _ in worlds]
    assert ports == [one.master_port for _, one in worlds]
    assert len(set(ports)) == 3


def test_the_number_is_new_for_the_node_that_knows_most(seat):
    """Also when a newcomer has rank 0, and the store is another one."""
    first, second = HashStore(), HashStore()
    old = seat("old", Answering(info(first, 0, 1), info(HashStore(), 0, 1), info(second, 1, 2)))
    new = seat("new", Answering(info(second, 0, 2)))
    agreed(old)
    agreed(old)
    assert [world.round for world in agreed(old, new)] == [2, 2]


def test_the_store_of_the_round_is_offered(pair):
    assert pair[0].port.store is None
    agreed(*pair)
    assert pair[0].port.store is pair[0].handler.answers[0].store


# -- failing to agree --------------------------------------------------------------------------


def error_named(name, text=""):
    return type(name, (Exception,), {})(text)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (error_named("RendezvousClosedError"), "the run is closed: it is over, or its id"),
        (error_named("RendezvousTimeoutError"), "too few nodes came in time"),
        (error_named("RendezvousConnectionError", "no"), "the rendezvous cannot be reached: no"),
        (error_named("RendezvousStateError"), "the shared state of the rendezvous cannot be"),
        (ValueError("odd"), "ValueError: odd"),
    ],
)
def test_an_error_is_an_answer(seat, error, reason):
    alone = seat("n0", Answering(error))
    alone.join(4)
    event = alone.take("rendezvous_failed")
    assert event.data["reason"].startswith(reason)
    assert event.attempt == 4


def test_a_spare_that_is_not_needed_has_finished(seat):
    alone = seat("n0", Answering(error_named("RendezvousGracefulExitError")))
    alone.join(4)
    assert alone.take("run_finished").attempt == 4


def test_a_node_that_does_not_tell_its_part_is_named(seat):
    store = HashStore(timedelta(milliseconds=10))
    alone = seat("n0", Answering(info(store, 0, 2)))
    alone.join()
    assert "rounds/0/node/1 within 0.01 s" in alone.take("rendezvous_failed").data["reason"]


def test_without_a_port_there_is_no_world(seat):
    def none(_):
        raise OSError("all are taken")

    alone = seat("n0", Answering(info(HashStore(), 0, 1)), find_port=none)
    alone.join()
    assert "all are taken" in alone.take("rendezvous_failed").data["reason"]


def test_after_a_failure_one_can_join_again(seat):
    alone = seat("n0", Answering(ValueError("odd"), info(HashStore(), 0, 1)))
    alone.join()
    alone.take("rendezvous_failed")
    assert agreed(alone, attempt=1)[0].round == 0


# -- being abandoned ---------------------------------------------------------------------------


class Blocked(Answering):
    """Its first ``next_rendezvous`` lasts until ``free``."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.entered, self.free = threading.Event(), threading.Event()

    def next_rendezvous(self):
        self.entered.set()
        self.free.wait()
        return super().next_rendezvous()


def test_a_newer_question_waits_until_the_handler_is_free_and_is_the_one_answered(seat):
    stores = [HashStore(), HashStore()]
    alone = seat("n0", Blocked(*(info(store, 0, 1) for store in stores)))
    alone.join(1)
    alone.handler.entered.wait()
    alone.join(2)
    alone.handler.free.set()
    assert alone.take("rendezvous_completed").attempt == 2
    assert alone.is_silent()
    assert stores[0].check(["elastic_fsm/rounds/0/ended"]), "others need not count on this node"
    assert not stores[1].check(["elastic_fsm/rounds/0/ended"])


def test_a_question_that_is_dropped_before_it_is_asked_is_not_asked(seat):
    asked = []
    alone = seat("n0", Blocked(lambda: asked.append(1) or info(HashStore(), 0, 1)))
    for attempt in range(5):
        alone.join(attempt)
    alone.handler.free.set()
    assert alone.take("rendezvous_completed").attempt == 4
    assert len(asked) <= 2


def test_closing_does_not_wait_for_the_handler(seat, monkeypatch):
    alone = seat("n0", Blocked(info(HashStore(), 0, 1)))
    alone.join()
    alone.handler.entered.wait()
    with monkeypatch.context() as patch:
        patch.setattr(alone.port._thread, "join", lambda *_: pytest.fail("it waits"))
        alone.port.close()
    assert alone.port._thread.is_alive()
    alone.handler.free.set()
    alone.port._thread.join()
    assert alone.is_silent()


def test_waiting_for_the_others_ends_when_it_is_closed(pair):
    pair[1].join()
    pair[1].handler.answers[0].store.wait(["elastic_fsm/rounds/0/node/1"])
    pair[1].port.close()
    assert not pair[1].port._thread.is_alive()
    assert pair[1].is_silent()


# -- watching ----------------------------------------------------------------------------------


def test_nodes_that_wait_are_told_once_and_again_when_there_are_more(seat):
    alone = seat("n0", Answering(info(HashStore(), 0, 1)))
    agreed(alone, attempt=3)
    alone.handler.waiting = 1
    event = alone.take("membership_changed")
    assert (event.data["reason"], event.attempt) == ("nodes that wait to join: 1", 3)
    alone.look_again()
    assert alone.is_silent()
    alone.handler.waiting = 2
    assert alone.take("membership_changed").data["reason"] == "nodes that wait to join: 2"


def test_a_node_whose_workers_failed_makes_the_others_join_too(pair):
    """A handler that never has nodes waiting, as torch's static one, says nothing of it."""
    agreed(*pair)
    pair[1].join(1)
    assert pair[0].take("membership_changed").data["reason"] == "n1 joins the next round"
    pair[0].look_again()
    assert pair[0].is_silent()
    pair[0].join(1)
    assert [each.world().round for each in pair] == [1, 1]


def test_a_node_that_was_replaced_makes_the_others_join_too(pair, seat):
    agreed(*pair)
    other = seat("n1'", Answering(pair[1].handler.answers[0]))
    other.join()
    assert pair[0].take("membership_changed").data["reason"] == "n1' is back"
    zero, one = agreed(pair[0], attempt=1)[0], other.world()
    assert [node.node_id for node in zero.nodes] == ["n0", "n1'"]
    assert (zero.round, one.round, zero.master_port) == (1, 1, one.master_port)


def test_a_node_that_leaves_is_missed(pair):
    agreed(*pair)
    pair[1].port.leave()
    pair[1].port.close()
    assert pair[0].take("membership_changed").data["reason"] == "n1 left"


def test_trouble_is_told_once_until_it_is_over(seat):
    alone = seat("n0", Answering(info(HashStore(), 0, 1)))
    agreed(alone)
    alone.handler.waiting = RendezvousConnectionError("gone")
    alone.look_again()
    alone.handler.waiting = 0
    alone.look_again()
    assert len(alone.told) == 1
    assert "cannot be watched: the rendezvous cannot be reached: gone" in alone.told[0]
    assert alone.is_silent()
    alone.handler.waiting = OSError("gone again")
    alone.look_again()
    assert len(alone.told) == 2
    alone.handler.waiting = 1
    alone.take("membership_changed")


def test_nobody_looks_while_no_group_runs(pair):
    agreed(*pair)
    pair[0].look_again()
    pair[0].port.barrier(0)
    pair[0].port.store.wait([CAME])
    looks = pair[0].handler.looks
    pair[1].port.barrier(0)
    pair[0].take("barrier_passed")
    assert pair[0].handler.looks == looks


# -- the end -----------------------------------------------------------------------------------


def test_all_pass_the_barrier_when_the_last_comes(pair):
    agreed(*pair)
    pair[0].port.barrier(0)
    pair[0].port.store.wait([CAME])
    assert pair[0].is_silent()
    pair[1].port.barrier(0)
    assert [each.take("barrier_passed").attempt for each in pair] == [0, 0]


def test_waiting_at_the_barrier_ends_when_it_is_closed(pair):
    agreed(*pair)
    pair[0].port.barrier(0)
    pair[0].port.store.wait([CAME])
    pair[0].port.close()
    assert not pair[0].port._thread.is_alive()
    assert pair[0].is_silent()


def test_a_store_that_is_gone_does_not_turn_success_into_failure(pair, monkeypatch):
    agreed(*pair)

    def gone(*_):
        raise RuntimeError("connection reset")

    monkeypatch.setattr(pair[0].port.store, "add", gone)
    pair[0].port.barrier(0)
    event = pair[0].take("barrier_passed")
    assert "cannot be asked: RuntimeError: connection reset" in event.data["reason"]


def test_that_a_node_leaves_is_told_even_when_it_cannot_tell_the_others(pair, monkeypatch):
    agreed(*pair)

    def gone(*_):
        raise RuntimeError("connection reset")

    monkeypatch.setattr(pair[0].port.store, "set", gone)
    pair[0].port.leave()
    pair[0].port.close()
    assert pair[0].told == ["the other nodes cannot be told: RuntimeError: connection reset"]


# -- signs of life -----------------------------------------------------------------------------

PACE = Pace(0.04, 8)
SILENT = r"node 1 \(n1\) has sent no sign of life for [\d.]+ s"


class Noticing(HashStore):
    """Tells when a key is written."""

    def __init__(self):
        super().__init__()
        self.written = queue.SimpleQueue()

    def set(self, key, value):
        super().set(key, value)
        self.written.put((key, value))

    def next_beat(self, rank):
        """The next value of that node's heartbeat."""
        while True:
            key, value = self.written.get(timeout=PATIENCE)
            if key.endswith(f"/beat/{rank}"):
                return json.loads(value)


@pytest.fixture
def trio(seat):
    store = Noticing()
    return [seat(f"n{rank}", Answering(info(store, rank, 3)), pace=PACE) for rank in range(3)]


def test_a_node_that_was_killed_is_missed_by_all(trio):
    agreed(*trio, attempt=5)
    trio[1].port.close()  # without a word
    for each in (trio[0], trio[2]):
        event = each.take("membership_changed")
        assert re.fullmatch(SILENT, event.data["reason"])
        assert event.attempt == 5


def test_a_node_that_was_suspended_hears_that_it_was_missed_and_joins_again(trio):
    gate = threading.Event()
    gate.set()
    trio[1].handler.num_nodes_waiting = lambda: int(not gate.wait())
    agreed(*trio)
    gate.clear()
    for each in (trio[0], trio[2], trio[1]):
        assert re.fullmatch(SILENT, each.take("membership_changed").data["reason"])
        gate.set()
    assert [world.round for world in agreed(*trio, attempt=1)] == [1, 1, 1]


def test_a_node_that_waits_for_the_others_is_alive(trio):
    store = trio[0].handler.answers[0].store
    agreed(*trio)
    trio[1].port.barrier(0)
    store.wait([CAME])
    first = store.next_beat(1)["beat"]
    while store.next_beat(1)["beat"] < first + 3:
        pass


def test_a_node_that_waits_no_longer_is_not_missed(trio):
    store = trio[0].handler.answers[0].store
    agreed(*trio)
    trio[1].port.barrier(0)
    store.wait([CAME])
    trio[1].port.close()
    while store.next_beat(1)["within"] is not None:
        pass


def test_a_look_at_others_is_often_enough_for_the_heart(seat):
    store = Noticing()
    slow = seat("n0", Answering(info(store, 0, 2)), pace=Pace(0.05, 4), interval=60)
    slow.join()
    store.set(
        "elastic_fsm/rounds/0/node/1", json.dumps({"node": asdict(slow.node), "first_round": 0})
    )
    store.set("elastic_fsm/rounds/0/beat/1", json.dumps({"beat": 1, "within": None}))
    slow.world()
    assert [store.next_beat(0)["beat"] for _ in range(3)] == [1, 2, 3]


def test_a_pace_that_gets_slower_leaves_the_looks_as_they_were_asked_for(seat):
    """Those of the handler are known when it is made, and it may be made anew."""
    node = seat("n0", Answering(), interval=2, pace=Pace(1))
    assert node.port._look_every == 1
    node.port._given_pace = Pace(60)
    assert node.port._look_every == 2


def test_a_node_that_is_alone_has_no_heartbeat(seat):
    store = HashStore()
    alone = seat("n0", Answering(info(store, 0, 1)), pace=Pace(0.001, 1))
    agreed(alone)
    alone.look_again()
    assert not store.check(["elastic_fsm/rounds/0/beat/0"])


# -- a store that is gone ----------------------------------------------------------------------


class Served(HashStore):
    host, port = "host0", 29400


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (error_named("RendezvousConnectionError"), RendezvousConnectionError),
        (error_named("DistNetworkError", "reset\nby a stack"), RendezvousConnectionError),
    ],
)
def test_it_is_named_and_the_kind_of_error_is_ours(seat, error, kind):
    prefixed = SimpleNamespace(underlying_store=Served())
    assert place_of(prefixed) == "host0:29400"
    node = seat("n0", Answering(info(Served(), 0, 1), error))
    agreed(node)
    node.join(1)
    reason = node.take("rendezvous_failed").data["reason"]
    assert reason.startswith("the rendezvous store at host0:29400 has gone: the agent there")
    assert "stack" not in reason
    assert (type(node.port.error), str(node.port.error)) == (kind, reason)
    assert node.port.error.__cause__ is error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (error_named("RendezvousTimeoutError"), RendezvousTimeoutError),
        (error_named("RendezvousConnectionError"), RendezvousConnectionError),
        (ValueError("odd"), RendezvousError),
    ],
)
def test_before_there_was_one_it_cannot_be_gone(seat, error, kind):
    node = seat("n0", Answering(error))
    node.join(0)
    assert "gone" not in node.take("rendezvous_failed").data["reason"]
    assert type(node.port.error) is kind


def test_an_error_is_forgotten_when_the_next_joining_works(seat):
    node = seat("n0", Answering(ValueError("odd"), info(HashStore(), 0, 1)))
    node.join(0)
    node.take("rendezvous_failed")
    agreed(node, attempt=1)
    assert node.port.error is None


class Unreachable(SingleNodeHandler):
    """It works ``rounds`` times."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds

    def next_rendezvous(self):
        self.rounds -= 1
        if self.rounds < 0:
            raise RendezvousConnectionError("reset by peer")
        return super().next_rendezvous()


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_launch_that_cannot_go_on_without_the_store_says_so(tmp_path, monkeypatch, rounds):
    monkeypatch.setattr(launching, "get_rendezvous_handler", lambda _: Unreachable(rounds))
    config = launching.LaunchConfig(1, 1, 1, overrides=[f"run_dir={tmp_path}"])
    with pytest.raises((RendezvousConnectionError, ChildFailedError)) as caught:
        launching.launch_agent(config, "/bin/false", [])
    lost = caught.value.__cause__ if rounds else caught.value
    assert isinstance(caught.value, ChildFailedError) == bool(rounds)
    assert (type(lost), str(lost)) == (
        RendezvousConnectionError,
        "the rendezvous cannot be reached: reset by peer",
    )


# -- the last word -----------------------------------------------------------------------------


class Closing:
    """What can be seen of a handler of torch's at its end."""

    def __init__(self, store, spares=(), waiting=(), works=True):
        self._store, self._works = store, works
        state = SimpleNamespace(redundancy_list=set(spares), wait_list=set(waiting))
        self._state_holder = SimpleNamespace(state=state)

    def shutdown(self):
        return self._works


@pytest.mark.parametrize(
    ("handler", "stays"),
    [
        (Closing(Served(), spares="s"), True),
        (Closing(Served(), waiting="w"), True),
        (Closing(Served()), False),
        (Closing(HashStore(), spares="s"), False),
        (Closing(Served(), spares="s", works=False), False),
        (SingleNodeHandler(), False),
    ],
)
def test_who_may_serve_the_store_stays_until_spare_nodes_have_heard_the_end(
    monkeypatch, handler, stays
):
    slept = []
    monkeypatch.setattr("elastic_fsm.rendezvous.closing.time.sleep", slept.append)
    shut_down(handler)
    assert slept == ([2.0] if stays else [])

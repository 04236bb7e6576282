"""A node that sends no sign of life is missed, and no other is."""

from __future__ import annotations

import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest
from scripted_agents import DONE, HEALTHY, failed

from elastic_fsm.failures import SignalException
from elastic_fsm.group import WorkerSpec
from elastic_fsm.rendezvous.errors import RendezvousConnectionError
from elastic_fsm.rendezvous.handler import RendezvousInfo, RendezvousParameters
from elastic_fsm.rendezvous.hash_store import HashStore
from elastic_fsm.rendezvous.heartbeat import Heartbeat, Pace, Silence, pace_of
from elastic_fsm.rendezvous.later import LaterHandler
from elastic_fsm.server.membership import Membership


class Counted(HashStore):
    """Counts what is asked of it, and may be out of order."""

    def __init__(self):
        super().__init__(timedelta(seconds=10))
        self.writes = self.reads = 0
        self.broken = ""

    def set(self, key, value):
        self.writes += 1
        self.fail("set")
        super().set(key, value)

    def get(self, key):
        self.reads += 1
        self.fail("get")
        return super().get(key)

    def fail(self, what):
        if self.broken == what:
            raise ConnectionError("reset by peer")


class Ring:
    """Nodes with one store; each has a clock that shows another time."""

    def __init__(self, size, pace=None):
        self.store, self.time = Counted(), 0.0
        self.nodes = [
            Heartbeat(
                self.store, str, rank, size, pace or Pace(), now=lambda r=rank: self.time + 1e6 * r
            )
            for rank in range(size)
        ]
        for node in self.nodes:
            node.begin(at_rest=False)

    def pass_time(self, seconds, alive, step=1.0):
        """The living are asked every ``step`` seconds; who said what of whom, and when."""
        said = []
        for _ in range(round(seconds / step)):
            self.time += step
            for rank in alive:
                try:
                    silence = self.nodes[rank].beat()
                except ConnectionError:
                    continue
                if silence is not None:
                    said.append((self.time, rank, silence.rank))
        return said


def test_nobody_is_missed_who_beats():
    assert Ring(3).pass_time(100, [0, 1, 2]) == []


@pytest.mark.parametrize("killed_at", [0, 1, 4, 17])
def test_a_node_that_was_killed_is_missed_by_the_one_after_it(killed_at):
    ring = Ring(4)
    assert ring.pass_time(killed_at, range(4)) == []
    (time, who, whom), *others = ring.pass_time(40, [0, 1, 3])
    assert (who, whom) == (3, 2)
    assert 15 - 5 <= time - killed_at <= 15 + 2 * 5 + 1, "15 s from its last beat"
    assert {(who, whom) for _, who, whom in others} == {(3, 2)}


@pytest.mark.parametrize(
    ("alive", "said"), [([0, 3], (3, 2)), ([3], (3, 2)), ([0], (0, 3)), ([0, 1], (0, 3))]
)
def test_neighbours_that_were_killed_together_are_missed_by_a_living_one(alive, said):
    ring = Ring(4)
    ring.pass_time(12, range(4))
    assert {(who, whom) for _, who, whom in ring.pass_time(40, alive)} == {said}


def test_how_long_it_was_silent_is_told():
    ring = Ring(2)
    for time in (5, 10, 15):
        ring.time = time
        assert ring.nodes[0].beat() is None
    ring.time = 20.5
    assert ring.nodes[0].beat() == Silence(1, 15.5)


def test_who_has_promised_less_is_given_more_time():
    ring = Ring(2, Pace(1, 3, grace=30))
    ring.pass_time(5, [0, 1])
    (time, *_), *_ = ring.pass_time(60, [0])
    assert 38 <= time <= 40


# -- resting -----------------------------------------------------------------------------------


def test_who_rests_is_not_missed_and_the_one_before_it_is_looked_at():
    ring = Ring(4)
    ring.pass_time(10, range(4))
    ring.nodes[2].rest()
    assert ring.pass_time(100, [0, 1, 3]) == []
    assert {said[1:] for said in ring.pass_time(40, [0, 3])} == {(3, 1)}


def test_who_begins_at_rest_is_missed_once_it_has_beaten():
    ring = Ring(2)
    ring.nodes[1].begin(at_rest=True)
    assert ring.pass_time(100, [0]) == []
    assert ring.pass_time(10, [0, 1]) == []
    assert {said[1:] for said in ring.pass_time(40, [0])} == {(0, 1)}


def test_when_all_others_rest_nobody_is_missed():
    ring = Ring(3)
    ring.nodes[1].rest()
    ring.nodes[2].rest()
    assert ring.pass_time(100, [0]) == []


# -- whose fault it is -------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, 4, 12])
def test_a_machine_that_stood_still_does_not_blame_the_other(late):
    """It was suspended as a whole, and this node is the first that goes on."""
    ring = Ring(2)
    ring.pass_time(12, [1, 0])
    ring.time += 1000
    assert ring.pass_time(late, [0]) == []
    assert ring.pass_time(60, [1, 0]) == []


@pytest.mark.parametrize("pause", [6, 9, 12, 14])
def test_a_look_or_two_after_a_short_pause_say_nothing(pause):
    ring = Ring(2)
    ring.pass_time(10, [1, 0])
    ring.time += pause
    assert ring.pass_time(7, [0]) == []
    assert ring.pass_time(60, [1, 0]) == []


def test_who_is_dead_is_missed_also_after_a_pause():
    ring = Ring(2)
    ring.pass_time(12, [1, 0])
    ring.time += 1000
    assert 1000 + 12 + 15 <= ring.pass_time(40, [0])[0][0] <= 1000 + 12 + 26


@pytest.mark.parametrize("broken", ["get", "set"])
def test_a_store_out_of_order_is_no_death(broken):
    """The other could not beat either; it does so a while after the store is back."""
    ring = Ring(2)
    ring.pass_time(12, [1, 0])
    ring.store.broken = broken
    assert ring.pass_time(60, [1, 0]) == []
    ring.store.broken = ""
    assert ring.pass_time(14, [0]) == []
    assert ring.pass_time(60, [1, 0]) == []


def test_what_the_store_raises_comes_out_once_an_interval():
    ring = Ring(2)
    ring.store.broken = "get"
    ring.time = 5
    with pytest.raises(ConnectionError):
        ring.nodes[0].beat()
    assert ring.nodes[0].beat() is None


def test_a_slow_store_is_no_death():
    """Each call takes longer than a node may be silent."""
    ring = Ring(2)

    def slowly():
        ring.time += 20

    ring.store.fail = lambda what: slowly()
    assert ring.pass_time(100, [1, 0]) == []


# -- traffic and settings ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 50])
def test_a_node_reads_and_writes_once_an_interval(size):
    ring = Ring(size)
    ring.store.writes = ring.store.reads = 0
    ring.pass_time(50, range(size), step=0.5)
    assert (ring.store.writes, ring.store.reads) == (10 * size, 10 * size)


def test_beats_are_json():
    ring = Ring(2)
    ring.pass_time(5, [0])
    assert json.loads(ring.store.get("0")) == {"beat": 2, "within": 15.0}


def settings(interval, attempts):
    values = SimpleNamespace(keep_alive_interval=interval, keep_alive_max_attempt=attempts)
    return SimpleNamespace(settings=values)


@pytest.mark.parametrize(
    ("handler", "pace"),
    [
        (settings(timedelta(seconds=2), 4), Pace(2, 4)),
        (object(), Pace(5, 3)),
        (SimpleNamespace(settings=None), Pace(5, 3)),
        (settings(timedelta(), 3), Pace(5, 3)),
        (settings(timedelta(seconds=1), 0), Pace(5, 3)),
        (settings("often", 3), Pace(5, 3)),
    ],
)
def test_the_pace_is_that_of_the_handler(handler, pace):
    assert pace_of(handler) == pace


def test_the_pace_is_that_of_a_handler_that_is_made_later(monkeypatch):
    made = settings(timedelta(seconds=2), 4)
    made.next_rendezvous = lambda: None
    registry = "elastic_fsm.rendezvous.handler_registry.get_rendezvous_handler"
    monkeypatch.setattr(registry, lambda _: made)
    later = LaterHandler(RendezvousParameters("c10d", "host0", "run", 1, 2))
    later.next_rendezvous()
    assert pace_of(later) == Pace(2, 4)


# -- agents that block -------------------------------------------------------------------------

SPEC = WorkerSpec("trainer", 2, entrypoint="train", local_addr="here", monitor_interval=6)
GRACE = 30.0


@pytest.fixture
def pair():
    """Two nodes of a round, their store, and the time."""
    pair = SimpleNamespace(store=Counted(), time=0.0)
    pair.nodes = [Membership(now=lambda: pair.time) for _ in range(2)]

    def agree(rank):
        info = RendezvousInfo(pair.store, rank, 2)
        return pair.nodes[rank].agree_on_meeting_place(info, SPEC, object(), GRACE)

    with ThreadPoolExecutor(2) as pool:
        places = list(pool.map(agree, range(2)))
    assert places[0] == places[1]
    return pair


def beats_of(pair, rank):
    return json.loads(pair.store.get(f"elastic_fsm/rounds/0/beat/{rank}"))


def test_they_rest_until_they_look_at_their_workers(pair):
    pair.nodes[0].beat()
    assert beats_of(pair, 0)["within"] is None
    pair.time = 6
    pair.nodes[0].beat()
    assert beats_of(pair, 0)["within"] == 3 * 6 + GRACE, "as often as they look"


def test_one_that_was_killed_is_missed(pair):
    pair.time = 6
    pair.nodes[1].beat()
    for time in range(6, 6 + 3 * 6 + int(GRACE), 6):
        pair.time = time
        pair.nodes[0].beat()
        assert pair.nodes[0].why_ended() == ""
    pair.time = 54
    pair.nodes[0].beat()
    reason = pair.nodes[0].why_ended()
    assert re.fullmatch(r"node 1 \(here:\d+\) has sent no sign of life for 48 s", reason)


def test_one_that_leaves_says_so_and_has_no_part_in_the_round(pair):
    pair.nodes[1].end("left")
    reasons = [node.why_ended() for node in pair.nodes]
    assert reasons == [f"here:{os.getpid()} left", ""]
    pair.nodes[1].beat()
    pair.nodes[1].rest()
    assert beats_of(pair, 1)["beat"] == 1


def test_who_rests_or_leaves_has_no_use_for_a_store_in_trouble(pair, caplog):
    pair.store.broken, pair.time = "set", 6
    pair.nodes[0].rest()
    with pytest.raises(ConnectionError):
        pair.nodes[0].beat()
    pair.nodes[0].end("left")
    assert caplog.messages == ["the other nodes cannot be told: ConnectionError: reset by peer"] * 2


class Troubled(Membership):
    """The store of its round fails at these looks."""

    def __init__(self, *looks):
        super().__init__()
        self.fails = list(looks)

    def why_ended(self):
        if self.fails and self.fails.pop(0):
            raise ConnectionError("reset by peer")
        return ""


def test_a_store_in_trouble_does_not_end_workers_and_is_named_once_until_it_is_over(simple, caplog):
    agent = simple([*[HEALTHY] * 4, DONE])
    agent._membership = Troubled(True, True, False, True)
    agent._rendezvous = lambda group: setattr(agent, "_store", Served())
    assert agent.run().state.value == "SUCCEEDED"
    told = [message for message in caplog.messages if "watched" in message]
    gone = "the rendezvous cannot be watched: the rendezvous store at host0:29400 has gone: "
    assert [message.startswith(gone) for message in told] == [True, True]


def test_a_stop_signal_gets_them_out_of_a_look(simple):
    told = SignalException("told to stop", signal.SIGTERM)
    agent = simple([])
    agent._membership.why_ended = lambda: raise_(told)
    with pytest.raises(SignalException):
        agent._why_reform()


def raise_(error):
    raise error


def test_a_stop_signal_gets_them_out_of_the_store(pair, monkeypatch):
    told = SignalException("told to stop", signal.SIGTERM)

    def interrupted(*_):
        raise told

    monkeypatch.setattr(pair.store, "set", interrupted)
    with pytest.raises(SignalException):
        pair.nodes[0].rest()


class Recorded:
    """A membership that only tells what it was asked for."""

    def __init__(self):
        self.calls = []

    def agree_on_meeting_place(self, info, *_):
        return "here", 7

    def why_ended(self):
        return ""

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


JOINS = ("end", "joins the next round")
LEFT = ("end", "left")


@pytest.mark.parametrize(
    ("looks", "calls"),
    [
        ([HEALTHY, DONE], [JOINS, ("beat",), ("rest",)]),
        ([failed(), DONE], [JOINS, ("rest",), JOINS, ("rest",)]),
        ([HEALTHY, failed(), failed()], [JOINS, ("beat",), ("rest",), JOINS, ("rest",), LEFT]),
    ],
)
def test_their_machine_says_when_to_beat_to_rest_and_to_leave(simple, looks, calls):
    agent = simple(looks, max_restarts=1)
    agent._membership = Recorded()
    agent.run()
    assert agent._membership.calls == calls


def test_who_is_left_alone_has_nobody_to_miss(simple):
    """The round with the others has ended; it must not make the node join for ever."""
    agent = simple([HEALTHY, DONE])
    agent._membership._round = SimpleNamespace(
        end=lambda what: None, why_ended=lambda: pytest.fail("the old round"), beat=None
    )
    assert agent.run().state.value == "SUCCEEDED"


class Served:
    host, port = "host0", 29400


@pytest.mark.parametrize("method", ["agree_on_meeting_place", "_assign_worker_ranks"])
def test_a_store_that_goes_while_they_agree_is_named(simple, monkeypatch, method):
    agent, error = simple([]), ConnectionError("reset by peer")
    agent._rdzv_handler.next_rendezvous = lambda: RendezvousInfo(Served(), 0, 1)
    owner = agent._membership if method == "agree_on_meeting_place" else agent
    monkeypatch.setattr(owner, method, lambda *_: raise_(error))
    with pytest.raises(ConnectionError):
        agent.run()
    assert error.__notes__[0].startswith("the rendezvous store at host0:29400 has gone")


def test_an_error_of_theirs_names_the_store_that_is_gone(simple):
    """It stays what it is."""
    agent = simple([])
    agent._store = SimpleNamespace(host="host0", port=29400)
    error = RendezvousConnectionError("see inner exception")

    def gone():
        raise error

    agent._rdzv_handler.next_rendezvous = gone
    with pytest.raises(RendezvousConnectionError) as caught:
        agent.run()
    assert caught.value is error
    assert error.__notes__[0].startswith("the rendezvous store at host0:29400 has gone")

"""What every rendezvous must keep: each question has one answer, and answers name their attempt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from elastic_fsm.ranks import assign_ranks
from elastic_fsm.rendezvous.base import Rendezvous
from elastic_fsm.testing.contracts.base import Contract
from elastic_fsm.world import Node, World

if TYPE_CHECKING:
    from elastic_fsm.events import Event
    from elastic_fsm.loop import Loop

__all__ = ["RendezvousContract"]

_ANSWERS = ("rendezvous_completed", "rendezvous_failed")


class RendezvousContract(Contract):
    """Subclass it, say how a rendezvous is made, and pytest runs every check.

    The rendezvous must be one that this node alone can complete, or whose other nodes come by
    themselves.
    """

    node = Node("node-0", "trainer", 3, "127.0.0.1")

    def make_rendezvous(self, loop: Loop) -> Rendezvous:
        """A new rendezvous; it is closed after the check."""
        raise NotImplementedError

    def setup_method(self) -> None:
        """Before each check."""
        super().setup_method()
        self.rendezvous = self.must_not_block(self.make_rendezvous(self.loop), Rendezvous)

    def teardown_method(self) -> None:
        """After each check."""
        try:
            self.rendezvous.close()
        finally:
            super().teardown_method()

    def join(self, attempt: int = 0) -> Event:
        """Join, and the answer."""
        self.rendezvous.join(self.node, attempt)
        return self.next_event()

    def world(self, attempt: int = 0) -> World:
        """Join, and what was agreed on."""
        event = self.join(attempt)
        assert event.name == "rendezvous_completed", event
        return World.from_dict(event.data["world"])

    def test_joining_is_answered_once(self) -> None:
        event = self.join()
        assert event.name in _ANSWERS, event
        self.silence()

    def test_a_failure_has_a_reason(self) -> None:
        event = self.join()
        if event.name == "rendezvous_failed":
            assert event.data["reason"], "the reason is missing"

    def test_an_answer_can_be_journalled(self) -> None:
        json.dumps(dict(self.join().data))  # raises where it holds anything but plain values

    def test_this_node_has_its_place_in_the_world(self) -> None:
        world = self.world()
        assert world.nodes[world.node_rank] == self.node
        names = [node.node_id for node in world.nodes]
        assert len(set(names)) == len(names), "a node takes part twice"

    def test_ranks_are_contiguous(self) -> None:
        world = self.world()
        views = [replace(world, node_rank=rank) for rank in range(len(world.nodes))]
        ranks = [worker.global_rank for view in views for worker in assign_ranks(view)]
        assert ranks == list(range(world.size)), "each rank is given once, in the order of nodes"
        assert world.node_rank in range(len(views)), world.node_rank

    def test_workers_know_where_they_meet(self) -> None:
        world = self.world()
        assert world.master_addr, "there is no address"
        assert 0 < world.master_port < 65536

    def test_each_round_has_a_new_number(self) -> None:
        rounds = [self.world(attempt).round for attempt in range(3)]
        assert rounds == sorted(set(rounds)), "rounds are counted up"

    def test_answers_carry_their_attempt(self) -> None:
        assert self.join(7).attempt == 7
        self.rendezvous.barrier(7)
        assert self.take("barrier_passed").attempt == 7

    def test_a_newer_question_makes_the_older_stale(self) -> None:
        """Whatever still comes for the older is marked so, and the newer has one answer."""
        self.rendezvous.join(self.node, 1)
        self.rendezvous.join(self.node, 2)
        answers = [self.next_event()]
        while answers[-1].attempt != 2:
            answers.append(self.next_event())
        self.silence()
        assert [answer.attempt for answer in answers] in ([2], [1, 2])

    def test_the_barrier_is_passed_once(self) -> None:
        self.join()
        self.rendezvous.barrier(0)
        self.take("barrier_passed")
        self.silence()

    def test_leaving_is_not_answered_and_may_be_repeated(self) -> None:
        self.join()
        self.rendezvous.leave()
        self.rendezvous.leave()
        self.silence()

    def test_closing_is_not_answered_and_may_be_repeated(self) -> None:
        self.join()
        self.rendezvous.close()
        self.rendezvous.close()
        self.silence()

    def test_a_rendezvous_that_nobody_joined_can_be_closed(self) -> None:
        self.rendezvous.leave()
        self.rendezvous.close()
        self.silence()

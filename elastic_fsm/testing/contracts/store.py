"""What every store must keep; see :mod:`elastic_fsm.rendezvous.store` for the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from elastic_fsm.rendezvous.store import StoreError
from elastic_fsm.testing.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elastic_fsm.loop import Loop
    from elastic_fsm.rendezvous.store import Change, Entry, Lease, Snapshot, Store, Swap, Watch

__all__ = ["StoreContract"]

T = TypeVar("T")


class StoreContract(Contract):
    """Subclass it, say how a store is made, and pytest runs every check.

    ``ttl`` is the shortest time in seconds that a lease of this store may have.
    """

    ttl = 1.0

    def make_stores(self, loop: Loop) -> tuple[Store, Store]:
        """Two clients of one store in which there are no keys yet."""
        raise NotImplementedError

    # -- what the checks are written with --------------------------------------------------------

    def setup_method(self) -> None:
        """Before each check."""
        super().setup_method()
        self.store, self.other = self.make_stores(self.loop)

    def teardown_method(self) -> None:
        """After each check."""
        try:
            self.store.close()
            self.other.close()
        finally:
            super().teardown_method()

    def ask(self, question: Callable[..., object], *arguments: Any, **options: Any) -> Any:
        """The one answer to a question; it comes later, not within the call."""
        answers: list[Any] = []
        question(*arguments, answers.append, **options)
        assert answers == [], "the answer came within the call"
        self.wait_for(lambda: answers)
        self.pause()
        assert len(answers) == 1, f"more than one answer: {answers}"
        return answers[0]

    def pause(self) -> None:
        """Let happen whatever still does."""
        self.silence()

    def get(self, prefix: str, store: Store | None = None) -> Snapshot:
        """What stands below a prefix."""
        snapshot: Snapshot = self.ask((store or self.store).get, prefix)
        return snapshot

    def swap(self, key: str, value: str | None, expected: int = 0, **options: Any) -> Swap:
        """Compare and set."""
        swap: Swap = self.ask(self.store.compare_and_set, key, value, expected, **options)
        return swap

    def write(self, key: str, value: str | None, expected: int = 0, **options: Any) -> int:
        """Compare and set, which must succeed; the revision."""
        swap = self.swap(key, value, expected, **options)
        assert swap.done, swap
        return swap.revision

    def lease(self, store: Store | None = None) -> Lease:
        """A lease of the shortest time."""
        lease: Lease = self.ask((store or self.store).lease, self.ttl)
        return lease

    # -- reading and writing ---------------------------------------------------------------------

    def test_a_store_begins_empty(self) -> None:
        assert self.get("").entries == ()

    def test_what_was_written_is_read_by_all(self) -> None:
        self.write("/a", "one é\n")
        for store in (self.store, self.other):
            assert [(e.key, e.value) for e in self.get("/a", store).entries] == [("/a", "one é\n")]

    def test_a_prefix_is_read_in_the_order_of_its_keys(self) -> None:
        for key in ("/n/b", "/n/a", "/m", "/n/c", "/o"):
            self.write(key, key)
        assert [entry.key for entry in self.get("/n/").entries] == ["/n/a", "/n/b", "/n/c"]

    def test_every_change_has_a_higher_revision(self) -> None:
        first = self.write("/a", "1")
        second = self.write("/b", "2")
        third = self.write("/a", "3", first)
        assert first < second < third
        assert self.get("").revision == third
        assert [(e.created, e.revision) for e in self.get("").entries] == [
            (first, third),
            (second, second),
        ]

    def test_only_who_knows_the_last_revision_may_write(self) -> None:
        first = self.write("/a", "1")
        second = self.write("/a", "2", first)
        refused = self.swap("/a", "3", first)
        assert not refused.done
        assert refused.entry is not None, "what stands there is told"
        assert (refused.entry.value, refused.entry.revision) == ("2", second)
        assert self.get("/a").entries == (refused.entry,)

    def test_the_first_writer_wins(self) -> None:
        answers: list[Swap] = []
        for store, value in ((self.store, "1"), (self.other, "2")):
            store.compare_and_set("/cause", value, 0, answers.append)  # type: ignore[arg-type]
        self.wait_for(lambda: len(answers) == 2)
        winner, loser = sorted(answers, key=lambda swap: not swap.done)
        assert (winner.done, loser.done) == (True, False)
        assert winner.entry == loser.entry == self.get("/cause").entries[0]

    def test_a_key_can_be_deleted_and_made_anew(self) -> None:
        first = self.write("/a", "1")
        assert not self.swap("/a", None, first + 1000).done
        self.write("/a", None, first)
        assert self.get("/a").entries == ()
        again = self.write("/a", "2")
        assert self.get("/a").entries[0].created == again

    def test_deleting_nothing_changes_nothing(self) -> None:
        before = self.write("/a", "1")
        self.write("/b", None)
        assert self.get("").revision == before

    # -- watching --------------------------------------------------------------------------------

    def watched(self, prefix: str, after: int) -> tuple[_Seen, Watch]:
        """What is seen by the other client."""
        seen = _Seen()
        return seen, self.other.watch(prefix, after, seen.changed, seen.lost)

    def test_every_change_after_a_revision_is_seen_once_and_in_order(self) -> None:
        """Those before the watch began, and those that come."""
        first = self.write("/n/a", "1")
        second = self.write("/n/b", "2")
        seen, _ = self.watched("/n/", first)
        third = self.write("/n/a", "3", first)
        self.write("/m", "elsewhere")
        fourth = self.write("/n/b", None, second)
        self.wait_for(lambda: len(seen.changes) >= 3)
        self.pause()
        assert seen.told == [
            ("/n/b", second, "2"),
            ("/n/a", third, "3"),
            ("/n/b", fourth, None),
        ]
        assert seen.errors == []

    def test_changes_carry_the_entry_as_it_was_then(self) -> None:
        first = self.write("/a", "1")
        self.write("/a", "2", first)
        seen, _ = self.watched("/a", first - 1)
        self.wait_for(lambda: len(seen.changes) >= 2)
        entries: list[Entry | None] = [change.entry for change in seen.changes]
        assert [(e.value, e.created) for e in entries if e] == [("1", first), ("2", first)]

    def test_a_watch_that_was_cancelled_is_silent(self) -> None:
        seen, watch = self.watched("/", self.get("").revision)
        watch.cancel()
        watch.cancel()
        self.write("/a", "1")
        self.pause()
        assert seen.changes == []

    # -- leases ----------------------------------------------------------------------------------

    def test_keys_go_with_their_lease(self) -> None:
        """All in one revision, and whoever watches sees it."""
        lease = self.lease()
        for key in ("/n/a", "/n/b"):
            self.write(key, "1", lease=lease)
        last = self.write("/n/c", "stays")
        seen, _ = self.watched("/n/", last)
        self.wait_for(lambda: len(seen.changes) >= 2)
        assert sorted(change.key for change in seen.changes) == ["/n/a", "/n/b"]
        assert {change.entry for change in seen.changes} == {None}
        assert [len(batch) for batch in seen.batches] == [2]
        assert [entry.key for entry in self.get("/n/").entries] == ["/n/c"]

    def test_a_lease_that_is_kept_alive_goes_on(self) -> None:
        lease = self.lease()
        last = self.write("/a", "1", lease=lease)
        seen, _ = self.watched("/a", last)
        for _ in range(4):
            self._let_pass(lease.ttl / 2)
            assert self.ask(lease.keep_alive) is True
        assert seen.changes == []
        self.wait_for(lambda: seen.changes)

    def test_a_lease_that_has_ended_cannot_be_kept_alive(self) -> None:
        lease = self.lease()
        assert self.ask(lease.revoke) is True
        assert self.ask(lease.keep_alive) is False
        assert self.ask(lease.revoke) is False

    def test_a_lease_that_is_revoked_takes_its_keys_at_once(self) -> None:
        lease = self.lease()
        self.write("/a", "1", lease=lease)
        self.ask(lease.revoke)
        assert self.get("/a").entries == ()

    def test_nothing_can_hang_on_a_lease_that_has_ended(self) -> None:
        lease = self.lease()
        self.ask(lease.revoke)
        answer = self.ask(self.store.compare_and_set, "/a", "1", 0, lease=lease)
        assert isinstance(answer, StoreError), answer
        assert self.get("/a").entries == ()

    def test_a_key_that_is_written_without_the_lease_stays(self) -> None:
        lease = self.lease()
        first = self.write("/a", "1", lease=lease)
        self.write("/a", "2", first)
        self.ask(lease.revoke)
        assert [entry.value for entry in self.get("/a").entries] == ["2"]

    # -- the end ---------------------------------------------------------------------------------

    def test_a_client_that_is_gone_loses_its_lease_and_others_see_it(self) -> None:
        last = self.write("/n/a", "1", lease=self.lease())
        seen, _ = self.watched("/n/", last)
        self.store.close()
        self.wait_for(lambda: seen.changes)
        assert [(change.key, change.entry) for change in seen.changes] == [("/n/a", None)]

    def test_a_client_that_is_closed_is_silent(self) -> None:
        seen, _ = self.watched("/", self.get("").revision)
        answers: list[Any] = []
        self.other.get("/", answers.append)
        self.other.close()
        self.other.close()
        self.write("/a", "1")
        self.pause()
        assert (answers, seen.changes, seen.errors) == ([], [], [])

    def _let_pass(self, seconds: float) -> None:
        passed: list[bool] = []
        self.loop.call_later(seconds, lambda: passed.append(True))
        self.wait_for(lambda: passed)


class _Seen:
    """What a watch has told."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Change]] = []
        self.errors: list[StoreError] = []

    def changed(self, changes: Sequence[Change]) -> None:
        self.batches.append(changes)

    def lost(self, error: StoreError) -> None:
        self.errors.append(error)

    @property
    def changes(self) -> list[Change]:
        return [change for batch in self.batches for change in batch]

    @property
    def told(self) -> list[tuple[str, int, str | None]]:
        return [(c.key, c.revision, c.entry.value if c.entry else None) for c in self.changes]

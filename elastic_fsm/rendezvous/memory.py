"""The engine of the port :class:`Store` in memory: for tests and simulations, where nodes share one
loop.

:class:`Memory` is what a server would hold; each :class:`MemoryStore` is a client of it. Answers
come by ``call_soon``, changes are told in the order of their revisions, and leases end by a timer
of the loop: with a manual clock all of it happens in virtual time.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from elastic_fsm.rendezvous.store import Change, Entry, Snapshot, Store, StoreError, Swap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from elastic_fsm.loop import Loop
    from elastic_fsm.rendezvous.store import Lease, Watch

__all__ = ["Memory", "MemoryStore"]

T = TypeVar("T")


class Memory:
    """The keys, the last ``remembered`` revisions, and whoever watches."""

    def __init__(self, loop: Loop, *, remembered: int = 1000) -> None:
        self.loop = loop
        self.revision = 0
        self.entries: dict[str, Entry] = {}
        self.past: deque[tuple[Change, ...]] = deque(maxlen=remembered)
        self.watches: list[_Watch] = []
        self.lease_of: dict[str, _Lease] = {}

    @property
    def forgotten(self) -> int:
        """The last revision whose changes are not known any more."""
        return self.revision - len(self.past)

    def below(self, prefix: str) -> tuple[Entry, ...]:
        """The entries whose keys begin so, in the order of the keys."""
        return tuple(self.entries[key] for key in sorted(self.entries) if key.startswith(prefix))

    def write(self, values: dict[str, str | None], lease: _Lease | None = None) -> None:
        """All in one revision, which is then told to whoever watches."""
        self.revision += 1
        changes = tuple(self._write(key, value, lease) for key, value in values.items())
        self.past.append(changes)
        for watch in list(self.watches):
            watch.tell(changes)

    def _write(self, key: str, value: str | None, lease: _Lease | None) -> Change:
        old = self.entries.pop(key, None)
        self.lease_of.pop(key, None)
        if value is None:
            return Change(key, self.revision, None)
        created = old.created if old else self.revision
        self.entries[key] = entry = Entry(key, value, created, self.revision)
        if lease is not None:
            self.lease_of[key] = lease
        return Change(key, self.revision, entry)


class _Lease:
    def __init__(self, store: MemoryStore, ttl: float) -> None:
        self._store = store
        self._memory = store.memory
        self._ttl = ttl
        self.ended = False
        self._arm()

    @property
    def ttl(self) -> float:
        return self._ttl

    def keep_alive(self, done: Callable[[bool | StoreError], None]) -> None:
        if not self.ended:
            self._timer.cancel()
            self._arm()
        self._store.answer(done, not self.ended)

    def revoke(self, done: Callable[[bool | StoreError], None]) -> None:
        was_alive = not self.ended
        if was_alive:
            self._timer.cancel()
            self._end()
        self._store.answer(done, was_alive)

    def _arm(self) -> None:
        self._timer = self._memory.loop.call_later(self._ttl, self._end)

    def _end(self) -> None:
        self.ended = True
        keys = [key for key, lease in self._memory.lease_of.items() if lease is self]
        if keys:
            self._memory.write(dict.fromkeys(keys))


class _Watch:
    def __init__(
        self, store: MemoryStore, prefix: str, changed: Callable[[Sequence[Change]], None]
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._changed = changed
        self._cancelled = False

    def tell(self, changes: Sequence[Change]) -> None:
        mine = [change for change in changes if change.key.startswith(self._prefix)]
        if mine:
            self._store.answer(self._told, mine)

    def cancel(self) -> None:
        self._cancelled = True
        if self in self._store.memory.watches:
            self._store.memory.watches.remove(self)

    def _told(self, changes: Sequence[Change]) -> None:
        if not self._cancelled:
            self._changed(changes)


class MemoryStore(Store):
    """A client of a :class:`Memory`; all clients share its loop."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._watches: list[_Watch] = []
        self._closed = False

    def answer(self, done: Callable[[T], None], result: T) -> None:
        """Call back soon, unless the client has been closed by then."""
        self.memory.loop.call_soon(functools.partial(self._call, done, result))

    def _call(self, done: Callable[[T], None], result: T) -> None:
        if not self._closed:
            done(result)

    def get(self, prefix: str, done: Callable[[Snapshot | StoreError], None]) -> None:
        """See :meth:`Store.get`."""
        self.answer(done, Snapshot(self.memory.revision, self.memory.below(prefix)))

    def compare_and_set(
        self,
        key: str,
        value: str | None,
        expected: int,
        done: Callable[[Swap | StoreError], None],
        *,
        lease: Lease | None = None,
    ) -> None:
        """See :meth:`Store.compare_and_set`."""
        assert lease is None or isinstance(lease, _Lease)
        memory = self.memory
        if lease is not None and lease.ended:
            self.answer(done, StoreError("the lease has ended"))
            return
        entry = memory.entries.get(key)
        as_expected = (entry.revision if entry else 0) == expected
        if as_expected and (entry or value is not None):  # deleting nothing changes nothing
            memory.write({key: value}, lease)
        self.answer(done, Swap(as_expected, memory.revision, memory.entries.get(key)))

    def watch(
        self,
        prefix: str,
        after: int,
        changed: Callable[[Sequence[Change]], None],
        lost: Callable[[StoreError], None],
    ) -> Watch:
        """See :meth:`Store.watch`."""
        watch = _Watch(self, prefix, changed)
        memory = self.memory
        if after < memory.forgotten:
            self.answer(lost, StoreError(f"changes up to {memory.forgotten} have been forgotten"))
            return watch
        for changes in list(memory.past)[after - memory.forgotten :]:
            watch.tell(changes)
        memory.watches.append(watch)
        self._watches.append(watch)
        return watch

    def lease(self, ttl: float, done: Callable[[Lease | StoreError], None]) -> None:
        """See :meth:`Store.lease`."""
        self.answer(done, _Lease(self, ttl))

    def close(self) -> None:
        """See :meth:`Store.close`."""
        self._closed = True
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()

"""The port of a store: the few things of a key-value store that a rendezvous is made of.

The semantics are those of etcd, so that its adapter has nothing to add. Every change has a
*revision*, counted up for the whole store; a key remembers the one of its last change. Writing
compares that revision; watching goes on after one, so that nothing between reading and watching
is missed; keys that hang on a lease go when it is not kept alive.

Nothing here waits. Each question has one answer, given by a callback in the loop's thread and
never within the call itself: what was asked for, or a :class:`StoreError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Change", "Entry", "Lease", "Snapshot", "Store", "StoreError", "Swap", "Watch"]


class StoreError(Exception):
    """The store cannot be reached, or cannot do what was asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A key as it stands: ``created`` and ``revision`` are those of its first and last writing.

    A key that was deleted and written again was created anew.
    """

    key: str
    value: str
    created: int
    revision: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Entries in the order of their keys, as of the store's ``revision``."""

    revision: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Swap:
    """What came of a compare-and-set: whether it was ``done``, and the key as it stands now."""

    done: bool
    revision: int
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Change:
    """One key of one revision: its new ``entry``, None when it was deleted."""

    key: str
    revision: int
    entry: Entry | None


class Lease(Protocol):
    """What keys hang on; it ends ``ttl`` seconds after it was last kept alive, its keys with it.

    The store may grant another ``ttl`` than the one asked for.
    """

    @property
    def ttl(self) -> float:
        """Seconds."""
        ...

    def keep_alive(self, done: Callable[[bool | StoreError], None]) -> None:
        """Begin the time anew; False when the lease has ended already."""
        ...

    def revoke(self, done: Callable[[bool | StoreError], None]) -> None:
        """End it now, with its keys; False when it has ended already."""
        ...


class Watch(Protocol):
    """A watch that goes on until it is cancelled or lost."""

    def cancel(self) -> None:
        """Nothing more is told; again does nothing."""
        ...


class Store(ABC):
    """A client of a store."""

    @abstractmethod
    def get(self, prefix: str, done: Callable[[Snapshot | StoreError], None]) -> None:
        """All keys that begin with ``prefix``, and the revision as of which that is so."""

    @abstractmethod
    def compare_and_set(
        self,
        key: str,
        value: str | None,
        expected: int,
        done: Callable[[Swap | StoreError], None],
        *,
        lease: Lease | None = None,
    ) -> None:
        """Write ``value`` (None: delete the key) if the key's revision is still ``expected``.

        0 expects that there is no such key. The key hangs on ``lease`` from then on, or on none;
        one that has ended is an error.
        """

    @abstractmethod
    def watch(
        self,
        prefix: str,
        after: int,
        changed: Callable[[Sequence[Change]], None],
        lost: Callable[[StoreError], None],
    ) -> Watch:
        """Tell every change to the keys below ``prefix`` since the revision ``after``, in order.

        Changes of one revision are told at once. ``lost`` is called once when that is not
        possible (any more), for instance since so old changes have been forgotten: read again,
        and watch from there.
        """

    @abstractmethod
    def lease(self, ttl: float, done: Callable[[Lease | StoreError], None]) -> None:
        """A new lease."""

    @abstractmethod
    def close(self) -> None:
        """Give back connections and threads; no callback is called any more.

        Leases are left to end by themselves, as when the process had died; again does nothing.
        """

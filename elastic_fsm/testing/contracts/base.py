"""What the suites share: a loop, and waiting for what it brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.loop import Loop
from elastic_fsm.testing.contracts.must_not_block import MustNotBlock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Contract"]

T = TypeVar("T")


class Contract:
    """A loop for each check.

    ``patience`` is the time in seconds after which an answer counts as never coming. ``quiet`` is
    how long a check listens for what must not come: whoever has a manual clock can wait long.
    ``promptness`` is the time in real seconds within which each call must return, ``closing`` that
    for ``close``, which may wait for what it ends.
    """

    patience = 30.0
    quiet = 0.0
    promptness = 10.0
    closing = 30.0

    def make_loop(self) -> Loop:
        """The loop that the tested thing posts to; with the system's clock."""
        return Loop(SystemClock())

    def setup_method(self) -> None:
        """Before each check."""
        self.loop = self.make_loop()

    def teardown_method(self) -> None:
        """After each check."""
        self.loop.close()

    def must_not_block(self, part: T, port: type) -> T:
        """The tested ``part``; a method of its ``port`` that blocks fails the check."""
        limits = dict.fromkeys(vars(port)["__abstractmethods__"], self.promptness)
        return cast("T", MustNotBlock(part, limits | {"close": self.closing}))

    def next_event(self) -> Event:
        """The next event; fails when none comes."""
        overdue = Event("overdue")
        timer = self.loop.call_later(self.patience, lambda: self.loop.post(overdue))
        event = self.loop.next_event()
        timer.cancel()
        assert event is not overdue, f"nothing came for {self.patience:g} s"
        return event

    def take(self, name: str) -> Event:
        """The next event, which must be of this name."""
        event = self.next_event()
        assert event.name == name, f"{name} should have come, not {event}"
        return event

    def wait_for(self, done: Callable[[], object]) -> None:
        """Serve the loop until something is true; no event may come meanwhile."""
        assert self.loop.run_until(lambda: bool(done()), self.patience), "it never came"

    def silence(self) -> None:
        """Nothing more is said."""
        asked = Event("asked")
        self.loop.call_later(self.quiet, lambda: self.loop.post(asked))
        event = self.loop.next_event()
        assert event is asked, f"nothing should have come any more, not {event}"

"""The port of a source: it owns descriptors, threads or timers, and it never decides anything.

One kind of source is also asked for something: the one that runs the user's commands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CommandRunner", "Source"]


class Source(ABC):
    """Something that posts events to the loop it was made with, from start to close."""

    @abstractmethod
    def start(self) -> None:
        """Begin to watch."""

    @abstractmethod
    def close(self) -> None:
        """Give back everything it owns; calling it again does nothing."""


class CommandRunner(Source):
    """Starts commands and posts their ends."""

    @abstractmethod
    def run(
        self,
        name: str,
        argv: Sequence[str],
        given: bytes,
        *,
        timeout: float | None,
        is_last: bool = False,
    ) -> None:
        """Start a command with ``given`` on its standard input, and do not wait for it.

        Answered by ``command_finished`` or, when it does not end with 0, cannot be started or
        takes longer than ``timeout`` seconds, by ``command_failed`` (``name``, ``exit_code``,
        ``reason``). ``is_last``: the run ends now; it is waited for nevertheless.
        """

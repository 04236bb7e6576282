"""The port of a source: it owns descriptors, threads or timers, and it never decides anything.

One kind of source is also asked for something: the one that runs the user's commands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Command", "CommandRunner", "Source"]


class Source(ABC):
    """Something that posts events to the loop it was made with, from start to close."""

    @abstractmethod
    def start(self) -> None:
        """Begin to watch."""

    @abstractmethod
    def close(self) -> None:
        """Give back everything it owns; calling it again does nothing."""


class Command(NamedTuple):
    """A command to be started, with ``given`` on its standard input.

    It may take ``timeout`` seconds, None is no limit. ``is_last``: the run ends now; the command
    is waited for nevertheless, and needs a limit.
    """

    name: str
    argv: Sequence[str]
    given: bytes = b""
    timeout: float | None = None
    is_last: bool = False


class CommandRunner(Source):
    """Starts commands and posts their ends."""

    @abstractmethod
    def run(self, command: Command) -> None:
        """Start a command, and do not wait for it.

        Answered by ``command_finished`` or, when it does not end with 0, cannot be started, takes
        too long or still runs at the end of the run, by ``command_failed`` (``name``,
        ``exit_code``, ``reason``, and the ``last_line`` that it wrote).
        """

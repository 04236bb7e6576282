"""Commands that are not started: they end as a script says."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.sources.base import CommandRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elastic_fsm.loop import Loop

__all__ = ["ScriptedCommands"]


class ScriptedCommands(CommandRunner):
    """Each command ends at once with 0, or as ``ends`` says by name: seconds and exit code.

    ``calls`` holds the names and what was given to each, in order; ``last`` are the names of those
    that were started at the end of the run.
    """

    def __init__(self, loop: Loop) -> None:
        self.ends: dict[str, tuple[float, int]] = {}
        self.calls: list[tuple[str, bytes]] = []
        self.last: list[str] = []
        self._loop = loop

    def start(self) -> None:
        """Nothing to do."""

    def run(
        self,
        name: str,
        argv: Sequence[str],
        given: bytes,
        *,
        timeout: float | None,
        is_last: bool = False,
    ) -> None:
        """See :meth:`CommandRunner.run`."""
        self.calls.append((name, given))
        self.last += [name] * is_last
        takes, code = self.ends.get(name, (0.0, 0))
        reason = ""
        if timeout is not None and takes > timeout:
            takes, code, reason = timeout, -9, f"took longer than {timeout:g} s"
        data = {"name": name, "exit_code": code, "reason": reason}
        event = Event("command_failed" if code else "command_finished", data)
        self._loop.call_later(takes, functools.partial(self._loop.post, event))

    def close(self) -> None:
        """Nothing is held."""

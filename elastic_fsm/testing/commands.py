"""Commands that are not started: they end as a script says."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.sources.base import CommandRunner

if TYPE_CHECKING:
    from elastic_fsm.loop import Loop
    from elastic_fsm.sources.base import Command

__all__ = ["ScriptedCommands"]


class ScriptedCommands(CommandRunner):
    """Each command ends at once with 0, or as ``ends`` says by name: seconds and exit code.

    ``calls`` are the commands that were started, in order. Those that still run at the end of
    the run are forgotten.
    """

    def __init__(self, loop: Loop) -> None:
        self.ends: dict[str, tuple[float, int]] = {}
        self.calls: list[Command] = []
        self._loop = loop

    def start(self) -> None:
        """Nothing to do."""

    def run(self, command: Command) -> None:
        """See :meth:`CommandRunner.run`."""
        self.calls.append(command)
        takes, code = self.ends.get(command.name, (0.0, 0))
        reason = ""
        if command.timeout is not None and takes > command.timeout:
            takes, code, reason = command.timeout, -9, f"took longer than {command.timeout:g} s"
        data = {"name": command.name, "exit_code": code, "reason": reason, "last_line": ""}
        event = Event("command_failed" if code else "command_finished", data)
        self._loop.call_later(takes, functools.partial(self._loop.post, event))

    def close(self) -> None:
        """Nothing is held."""

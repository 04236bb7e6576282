"""In which order the lines of one moment are done: what goes first in a real run goes first here.

Simulations and injections share this rule, so that the same comes of a file in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.events import Event
    from elastic_fsm.loop import Loop
    from elastic_fsm.scenario.script import Happening, Script

__all__ = ["as_done", "post"]

_FIRST = ("signal_received", "action_failed")


def post(loop: Loop, event: Event) -> None:
    """Let an event happen: at the front of the inbox, where a real one would be."""
    if event.name in _FIRST:
        loop.post_first(event)
    else:
        loop.post(event)


def as_done(script: Script) -> list[Happening]:
    """The lines in the order in which those of one moment must be done.

    What goes to the front of the inbox comes last, and the last of it first: so the agent gets
    it before everything else, and in the order of the lines.
    """
    front = [line for line in script.happenings if _goes_first(line)]
    return [line for line in script.happenings if not _goes_first(line)] + front[::-1]


def _goes_first(line: Happening) -> bool:
    return line.kind == "signal" or (line.kind == "event" and line.values["NAME"] in _FIRST)

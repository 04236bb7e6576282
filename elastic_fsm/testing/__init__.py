"""The real agent and the real machine, in virtual time and without a single process.

A :class:`Scenario` reads like a story: what the world does and when, then the path that the
machine took and how the run ended.

    run = Scenario("elastic", workers=4, max_restarts=1)
    run.exits(3, code=137, at=40)
    run.signal("SIGTERM", at=100)
    result = run.play()
    assert ("restart", "BACKOFF") in run.path
    assert result.exit_code == 128 + 15

Only three things in it are not those of a real run: the clock jumps to the next timer, the
launcher starts nothing, and the rendezvous has no other node to talk to.
"""

from __future__ import annotations

from elastic_fsm.testing.clock import ManualClock, NothingCanHappen
from elastic_fsm.testing.commands import ScriptedCommands
from elastic_fsm.testing.launcher import OnStop, ScriptedLauncher
from elastic_fsm.testing.rendezvous import ScriptedRendezvous
from elastic_fsm.testing.scenario import Scenario, settings_for

__all__ = [
    "ManualClock",
    "NothingCanHappen",
    "OnStop",
    "Scenario",
    "ScriptedCommands",
    "ScriptedLauncher",
    "ScriptedRendezvous",
    "settings_for",
]

"""The scenario files of ``tests/scenarios``, for the tests that play them all.

Each file is played with every machine that it names; one file and one machine make a story.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.config import compose
from elastic_fsm.plugins import rules_for
from elastic_fsm.scenario.script import Script, read_script
from elastic_fsm.scenario.settings import with_settings_of
from elastic_fsm.scenario.simulating import Stage

if TYPE_CHECKING:
    from elastic_fsm.scenario.playing import Played
    from elastic_fsm.testing import Scenario

__all__ = ["FOLDER", "SCENARIOS", "START", "STORY_STAGE", "Story"]

FOLDER = Path(__file__).parent.parent / "scenarios"
START = "begin JOINING, joined STARTING, started HEALTHY"


@functools.cache
def composed(words):
    return compose(words).values


class _QuickStage(Stage):
    """Composes the same words once: most stories differ only in what happens."""

    def _prepare(self, script, machine):
        values = composed(tuple(with_settings_of(script, (), machine)))
        return values, rules_for(values["plugins"], [script.folder])


STORY_STAGE = _QuickStage()


@dataclass(frozen=True)
class Story:
    """A scenario file with one of the machines that it names."""

    machine: str
    script: Script

    def __str__(self) -> str:
        return f"{self.machine}-{Path(self.script.name).stem}"

    def played(self) -> Played:
        return STORY_STAGE.play(self.script, self.machine)

    def play(self) -> tuple[Scenario, str, str]:
        """The run, its path, its final state and exit code."""
        played = self.played()
        path = ", ".join(f"{transition} {state}" for transition, state in played.run.path)
        assert played.result, f"{self} has no end"
        return played.run, path, f"{played.run.agent.machine.state.name} {played.result.exit_code}"


SCENARIOS = [
    Story(machine, script)
    for script in map(read_script, sorted(FOLDER.glob("*.txt")))
    for machine in script.machines
]

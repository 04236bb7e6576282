"""What the real agent does is among what the exploration says can happen.

A proof about a model says something about the agent only as long as the model allows all that
the agent does: every step of every scenario file is looked for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_fsm.exploration.search import _Explorer
from elastic_fsm.scenario.script import read_script
from elastic_fsm.scenario.simulating import Stage

FILES = sorted((Path(__file__).parent.parent / "scenarios").glob("*.txt"))


def possible(machine) -> set[tuple[str, str, str]]:
    """State, event and transition of all moves that the exploration knows."""
    explorer = _Explorer(machine.spec, machine.rules, ["SIGTERM"])
    explorer.run()
    return {
        (here.state, outcome.move.event, outcome.move.transition)
        for here, outcomes in explorer.outcomes.items()
        for outcome in outcomes
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_step_of_a_scenario_is_possible(path):
    script = read_script(path)
    for name in script.machines:
        played = Stage().play(script, name)
        steps = {(r["source"], r["event"]["name"], r["transition"]) for r in played.steps}
        assert steps
        assert steps - possible(played.run.agent.machine) == set()

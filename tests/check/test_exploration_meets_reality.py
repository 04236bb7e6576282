"""What the real agent does is among what the exploration says can happen.

A proof about a model says something about the agent only as long as the model allows all that
the agent does: every step of every scenario file is looked for, and so is the whole way, from
one configuration to the next.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_fsm.exploration.search import BUDGET, _Explorer
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


def agrees(move, record) -> bool:
    """Whether a line of the journal may be this move of the exploration."""
    event = record["event"]
    if (move.event, move.transition) != (event["name"], record.get("transition", "")):
        return False
    if move.event != "worker_exited":
        return True
    well, stopped = (not event["data"]["exit_code"], event["data"]["stopped_by_agent"])
    return well == (not move.data["exit_code"]) and (
        well or stopped == move.data.get("stopped_by_agent", False)
    )


def strayed(explorer, records, budget):
    """The first line that no configuration allows which the lines before it may have led to."""
    here = {c for c, way in explorer.came.items() if way is None and c.left == budget}
    for record in records:
        if record.get("outcome") in ("step", "ignored", "failed"):
            outcomes = [outcome for c in here for outcome in explorer.outcomes[c]]
            here = {outcome.after for outcome in outcomes if agrees(outcome.move, record)}
            if not here:
                return record
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_whole_way_of_a_scenario_is_possible(path):
    script = read_script(path)
    for name in script.machines:
        run = Stage().play(script, name).run
        budget = run.settings["spec"]["max_restarts"]
        explorer = _Explorer(run.agent.machine.spec, run.agent.machine.rules, ["SIGTERM"])
        explorer.run()
        if budget <= BUDGET:
            assert strayed(explorer, run.records, budget) is None

"""The agent and the shipped machines, from the first event to the last, in virtual time."""

from __future__ import annotations

import pytest
from scenarios import SCENARIOS

from elastic_fsm.testing import settings_for


@pytest.mark.parametrize("story", SCENARIOS, ids=str)
def test_story(story):
    run, path, end = story.play()
    assert path.split(", ") == story.path.split(", ")
    assert end == story.end
    assert run.agent.restarts_used == path.count("again JOINING")
    assert run.agent.membership_restarts == path.count("reformed JOINING")
    assert run.launcher.alive == {}


@pytest.mark.parametrize("machine", sorted({story.machine for story in SCENARIOS}))
def test_every_transition_is_taken_by_some_story(machine):
    taken = set()
    for story in SCENARIOS:
        if story.machine == machine:
            taken |= {transition for transition, _ in story.play()[0].path}
    missing = set(settings_for(machine)["machine"]["transitions"]) - taken
    assert not missing, f"no story takes {sorted(missing)}"

"""The agent and the shipped machines, from the first event to the last, in virtual time.

The stories are the files of ``tests/scenarios``: what happens, and below a line what came of it.
After a change REWRITE=1 writes that anew; keep only what you can explain.
"""

from __future__ import annotations

import os

import pytest
from scenarios import FOLDER, SCENARIOS, STORY_STAGE

from elastic_fsm.scenario.script import read_script
from elastic_fsm.scenario.simulating import look_again
from elastic_fsm.testing import settings_for

FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file(path):
    before, now = look_again(
        read_script(path), STORY_STAGE, rewrite=bool(os.environ.get("REWRITE"))
    )
    assert now == before


@pytest.mark.parametrize("story", SCENARIOS, ids=str)
def test_story(story):
    run, path, _ = story.play()
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

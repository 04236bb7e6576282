"""Runs to look back at: played in virtual time, with a journal in a folder as agents make it."""

from __future__ import annotations

import pytest

from elastic_fsm.testing import OnStop, Scenario


@pytest.fixture
def node(tmp_path):
    """The folder of a node, as in ``elastic_runs/<run_id>/<node>``."""
    folder = tmp_path / "elastic_runs" / "run" / "node-0"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def play(node):
    """Plays a scenario, scripted by a function, with a journal in ``node``."""

    def playing(script=lambda run: None, name="elastic", /, **options):
        run = Scenario(name, journal=node / "journal.jsonl", **options)
        script(run)
        run.play()
        return run

    return playing


@pytest.fixture
def eventful(play):
    """Two crashes, a change of nodes between them, and a stop at the end."""

    def script(run):
        run.launcher.start_takes = 3
        run.launcher.on_stop = {rank: OnStop(takes=2) for rank in range(4)}
        run.exits(3, code=1, at=1000)
        run.post("membership_changed", at=2500, reason="node-1 left")
        run.exits(1, code=-9, at=4000)
        run.signal("SIGTERM", at=7200)

    return play(script, workers=4, max_restarts=3)

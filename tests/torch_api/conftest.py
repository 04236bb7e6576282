"""What the tests of the Python API share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted_agents import Handler, Scripted

from elastic_fsm.group import WorkerSpec

sys.path.insert(0, str(Path(__file__).parents[1] / "process"))

from process_harness import Scene


@pytest.fixture
def scene(tmp_path):
    """A folder in which programs can be started; at the end nothing of theirs may be left."""
    folder = tmp_path / "here"
    folder.mkdir()
    scene = Scene(folder)
    yield scene
    left = scene.close()
    assert not left, f"left behind: {left}"


@pytest.fixture
def simple(tmp_path):
    """Make an agent: ``simple(looks, kind=Mine, waiting=[0, 1], max_restarts=2)``."""

    def make(looks, kind=Scripted, waiting=(), overrides=(), options=None, **spec):
        values = {"entrypoint": "train", "monitor_interval": 0.001, **spec}
        handler = values.pop("rdzv_handler", None) or Handler(waiting)
        whole = WorkerSpec("trainer", 2, rdzv_handler=handler, **values)
        places = [f"run_dir={tmp_path}", *overrides]
        return kind(whole, looks, overrides=places, **(options or {}))

    return make


@pytest.fixture
def journal(tmp_path):
    """The steps of the last run in ``tmp_path``: (transition, state) pairs."""

    def read():
        path = next(tmp_path.glob("latest/*/journal.jsonl"))
        records = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        steps = [record for record in records if record.get("outcome") == "step"]
        return SimpleNamespace(records=records, path=[(s["transition"], s["dest"]) for s in steps])

    return read

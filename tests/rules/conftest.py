"""Scenes with real processes, as in ``tests/process``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "process"))

from process_harness import Scene


@pytest.fixture
def scene(tmp_path):
    """A folder in which agents can be started; at the end nothing of theirs may be left."""
    folder = tmp_path / "here"
    folder.mkdir()
    scene = Scene(folder)
    yield scene
    left = scene.close()
    assert not left, f"left behind: {left}"

"""What the tests of the configuration share."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastic_fsm.config import compose
from elastic_fsm.problems import BadInput


@pytest.fixture
def refused():
    """Compose, and hand back the findings: ``refused("a=b", job=path) -> [Problem, …]``."""

    def run(*words: str, job: Path | None = None):
        with pytest.raises(BadInput) as caught:
            compose(words, job_file=job)
        problems = list(caught.value.problems)
        for problem in problems:  # one short screen: what, where, what to do
            assert problem.fix or problem.what.count(" ") > 1, problem
            assert problem.where, problem
        screen = str(caught.value)
        for word in ("Traceback", "omegaconf", "OmegaConf", "object_type", "hydra.cc", "full_key"):
            assert word not in screen, screen
        return problems

    return run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder, and a function that writes a file into it."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        path = Path(name)  # relative, as a user types it
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write

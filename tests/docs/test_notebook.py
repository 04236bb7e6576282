"""The notebook among the examples, run by a kernel of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.one_share]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MARK = "ELASTIC_FSM_NOTEBOOK_TEST"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """What the cells with code say: their outputs, in order."""
    folder = tmp_path_factory.mktemp("notebook")
    for name in ("notebook.ipynb", "agent_function.py"):
        shutil.copy(EXAMPLES / name, folder)
    words = ["--execute", "--to", "notebook", "--output", "executed.ipynb", "notebook.ipynb"]
    homes = {name: str(folder) for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", *words],
        cwd=folder,
        env={**os.environ, **homes, MARK: str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads((folder / "executed.ipynb").read_text())["cells"]
    return folder, [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]


def value(outputs):
    """What the last expression of a cell is shown as, in plain text."""
    return "".join(outputs[-1]["data"]["text/plain"])


def test_the_machine_is_a_picture(executed):
    (shown,) = executed[1][1]
    assert "<svg" in "".join(shown["data"]["image/svg+xml"])
    assert "INIT -> JOINING -> STARTING -> HEALTHY" in value([shown])


def test_functions_of_a_cell_are_forked_and_those_of_a_module_spawned(executed):
    shares = "{0: 249500, 1: 250000}"
    assert value(executed[1][2]) == value(executed[1][3]) == shares
    (refused,) = executed[1][4]
    text = "".join(refused["text"])
    assert text.startswith("the function share cannot be started")
    assert "define it at the top level of a module, or use start_method=fork" in text


def test_an_interrupt_ends_the_cell_in_one_line(executed):
    error = executed[1][5][-1]
    assert error["ename"] == "SignalException"
    assert error["traceback"] == ["SignalException: the agent was told to stop by SIGINT"]


def test_the_kernel_lives_and_the_agent_runs_again(executed):
    state, children, again = executed[1][6:]
    assert "STOPPED" in value(state)
    assert value(children) == "[]"
    assert value(again) == "{0: 249500, 1: 250000}"


def test_no_process_is_left(executed):
    folder, _ = executed
    assert [p for p in psutil.process_iter() if _mark(p) == str(folder)] == []


def _mark(process):
    try:
        return process.environ().get(MARK)
    except psutil.Error:
        return None

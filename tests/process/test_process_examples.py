"""The examples, as a user runs them: real training that survives a crash and resumes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def train_numpy(scene, name: str, *words: str):
    checkpoint = str(scene.folder / f"{name}.npz")
    script = str(EXAMPLES / "train_numpy.py")
    job = (script, "--checkpoint", checkpoint, "--steps", "60", *words)
    run = scene.run("-n", "4", f"run_dir={name}", "spec.max_restarts=1", *job)
    return scene.in_dir(run, name)


def test_training_with_a_crash_ends_with_the_weights_of_one_without(scene):
    calm = train_numpy(scene, "calm")
    crashed = train_numpy(scene, "crashed", "--crash-rank", "2", "--crash-step", "50")
    assert (calm.code, crashed.code) == (0, 0)
    assert [len(run.report["attempts"]) for run in (calm, crashed)] == [1, 2]
    assert result(calm) == result(crashed)
    assert "resuming from" in crashed.log(rank=0, attempt=1)
    (cause,) = (c for c in crashed.report["attempts"][0]["causes"] if c["rank"] == 2)
    assert cause["stderr_tail"][-1].startswith("RuntimeError: rank 2 crashes at step 50")
    assert re.search(r"report .*report\.json", crashed.err)
    assert re.search(r"logs .*attempt_1", crashed.err)


def result(run) -> str:
    return re.search(r"test accuracy .*", run.out)[0]


@pytest.mark.torch
def test_a_ddp_script_written_for_torchrun_survives_a_crash(scene):
    script = str(EXAMPLES / "train_ddp.py")
    checkpoint = str(scene.folder / "digits.pt")
    words = ("--epochs", "3", "--checkpoint", checkpoint, "--crash-rank", "1")
    run = scene.run("-n", "2", "spec.max_restarts=1", script, *words)
    assert run.code == 0, run.err
    first, second = run.report["attempts"]
    assert 1 in {cause["rank"] for cause in first["causes"]}
    assert "accuracy" in run.log(rank=0, attempt=second["attempt"])


@pytest.mark.torch
def test_the_ddp_script_ends_the_threads_of_its_process_group(scene):
    """One that lives on when the interpreter ends makes torch abort now and then."""
    scene.write(
        "watched.py",
        "import os, runpy, sys\n"
        "from pathlib import Path\n"
        "import torch.distributed as dist\n"
        "def threads(when):\n"
        "    tasks = Path('/proc/self/task').iterdir()\n"
        "    print(when, *((task / 'comm').read_text().strip() for task in tasks))\n"
        "def destroy(really=dist.destroy_process_group):\n"
        "    threads('before')\n"
        "    really()\n"
        "    threads('after')\n"
        "dist.destroy_process_group = destroy\n"
        "del sys.argv[0]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n",
    )
    run = scene.run("-n", "1", "watched.py", str(EXAMPLES / "train_ddp.py"), "--epochs", "1")
    assert run.code == 0, run.err
    assert "gloo" in re.search("before .*", run.log())[0]
    assert "gloo" not in re.search("after .*", run.log())[0]

"""The agent is thin: what it has imported, and what a look at the help imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import elastic_fsm

pytestmark = pytest.mark.slow


def imported(text: str) -> set[str]:
    """The modules in what ``-X importtime`` wrote."""
    return {m[1].strip() for m in re.finditer(r"^import time:.*\|.*\|(.*)$", text, re.MULTILINE)}


def top_levels(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("word", ["--help", "--version", "-h", "-V", ""])
def test_help_and_version_import_next_to_nothing(scene, word):
    argv = [sys.executable, "-X", "importtime", "-m", "elastic_fsm"]
    run = scene.run(*([word] if word else []), argv=argv)
    assert run.code == 0
    assert run.out
    modules = imported(run.err)
    assert "elastic_fsm.cli" in modules
    assert not top_levels(modules) & {
        "hydra",
        "omegaconf",
        "transitions",
        "psutil",
        "yaml",
        "torch",
    }
    assert not modules & {"elastic_fsm.launch", "elastic_fsm.agent", "asyncio", "subprocess"}


def test_K2_a_running_agent_is_thin(scene):
    """Neither has its guardian; both are looked at while their workers run."""
    run = scene.start("-n", "2", "--", "sh", "-c", 'echo >"$BELL"; read x <"$GATE"')
    scene.bell.wait(2)
    run.enters("HEALTHY")
    maps = {pid: Path(f"/proc/{pid}/maps").read_text() for pid in scene.survivors()}
    assert run.pid in maps
    for pid, text in maps.items():
        assert "torch" not in text, pid
        assert "numpy" not in text, pid
    status = Path(f"/proc/{run.pid}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < 80 * 1024
    scene.gate.open(2)
    assert run.wait() == 0


def test_a_run_imports_no_heavy_package(scene):
    argv = [sys.executable, "-X", "importtime", "-m", "elastic_fsm", "run", "-n", "2"]
    run = scene.run("--", sys.executable, "-c", "", argv=argv)
    assert run.code == 0
    modules = imported(run.err)
    assert "elastic_fsm.launch" in modules
    heavy = {"torch", "numpy", "psutil", "asyncio", "multiprocessing", "pydoc"}
    assert not top_levels(modules) & heavy
    assert "difflib" not in modules  # for mistakes
    if sys.version_info < (3, 12):  # importlib.metadata brings it from there on
        assert "shutil" not in modules  # for programs on PATH


def test_a_guardian_imports_next_to_nothing():
    """It starts with the workers, on their processors."""
    code = "import sys; sys.path.append(sys.argv[1]); import elastic_fsm.launchers.guarding; "
    code += "print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code, str(Path(elastic_fsm.__file__).parents[1])]
    modules = set(subprocess.check_output(argv, text=True).split())
    assert {m for m in modules if m.startswith("elastic_fsm.")} == {
        "elastic_fsm.launchers",
        "elastic_fsm.launchers.guarding",
        "elastic_fsm.launchers.procfs",
    }
    assert not modules & {"collections", "contextlib", "enum", "functools", "re", "typing"}


def test_K4_a_run_needs_nothing_that_draws(scene):
    argv = [sys.executable, "-X", "importtime", "-m", "elastic_fsm", "run", "--"]
    run = scene.run(sys.executable, "-c", "", argv=argv)
    assert run.code == 0
    assert not {m for m in imported(run.err) if "graph" in m}


def test_a_library_user_pays_for_what_is_used(scene):
    code = "import elastic_fsm, sys; from elastic_fsm import record; print(*sorted(sys.modules))"
    run = scene.run(code, argv=[sys.executable, "-c"])
    modules = set(run.out.split())
    assert not top_levels(modules) & {
        "hydra",
        "omegaconf",
        "transitions",
        "psutil",
        "yaml",
        "torch",
    }
    assert {m for m in modules if m.startswith("elastic_fsm.")} == {"elastic_fsm.worker"}

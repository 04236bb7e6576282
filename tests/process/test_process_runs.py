"""Whole runs through the command line: attempts, exit codes, and words that arrive verbatim."""

from __future__ import annotations

import signal
import sys

import pytest

pytestmark = pytest.mark.slow

ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"
VERBATIM = [
    *("a=b", "--rdzv", "x", "@", "%", "${x}", "$HOME", "???", "\\", "\\n", "a b", "", "'", '"'),
    *(
        "{a: 1}",
        "[1,2]",
        "null",
        "-n",
        "--",
        "-c",
        "spec.x=1",
        "ünïcödé",
        "a\nb",
        "#",
        "~x",
        "+y=1",
    ),
]


@pytest.mark.parametrize(
    ("words", "attempts"),
    [
        (["spec.max_restarts=2"], 3),
        (["spec.max_restarts=2", "machine=fail_fast"], 1),
        ([], 1),
    ],
)
def test_the_budget_of_restarts(scene, words, attempts):
    run = scene.run("-n", "2", *words, "--", "sh", "-c", "exit 3")
    assert run.code == 3
    assert [a["attempt"] for a in run.report["attempts"]] == list(range(attempts))
    assert run.report["state"] == "FAILED"
    assert run.report["restarts_used"] == attempts - 1


def test_an_entrypoint_that_says_nothing_is_no_second_command(scene):
    run = scene.run("spec.entrypoint=null", "spec.args=[]", "logs=files", "--", "true")
    assert run.code == 0, run.err


def test_a_restarted_group_may_succeed(scene):
    script = '[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 3'
    run = scene.run("-n", "2", "spec.max_restarts=5", "--", "sh", "-c", script)
    assert run.code == 0
    assert run.report["state"] == "SUCCEEDED"
    assert run.report["restarts_used"] == 1
    assert "cause" not in run.err


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 75", 75),
        ("exit 255", 255),
        ("kill -KILL $$", 128 + signal.SIGKILL),
        ("kill -SEGV $$", 128 + signal.SIGSEGV),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("exit 0", 0),
    ],
)
def test_the_exit_code_is_the_workers(scene, script, code):
    run = scene.run("--", "sh", "-c", script)
    assert run.code == run.report["exit_code"] == code


@pytest.mark.parametrize(("script", "code"), [("exit 75", 1), ("kill -KILL $$", 1), ("exit 0", 0)])
def test_the_exit_code_as_torchrun_gives_it(scene, script, code):
    run = scene.run("exit_code=torchrun", "--", "sh", "-c", script)
    assert run.code == run.report["exit_code"] == code


def test_environment_text_arrives_as_typed(scene):
    values = {"X": "a=b,{c}@#%", "T": "true", "E": "1e3", "Z": "0115", "N": "null", "Q": "'\" \\"}
    words = [f"spec.env.{name}={value}" for name, value in values.items()]
    code = "import json, os; print(json.dumps({n: os.environ[n] for n in 'XTEZNQ'}))"
    run = scene.run("logs.prefix=", *words, "--", sys.executable, "-c", code)
    assert run.code == 0
    assert eval(run.out) == values


def test_environment_text_in_quotes_as_the_readme_shows_it(scene):
    code = "import os; print(os.environ['X'])"
    run = scene.run('spec.env.X="a=b,{c}@#%"', "--", sys.executable, "-c", code)
    assert "a=b,{c}@#%" in run.out


@pytest.mark.parametrize("how", ["--", "script", "-m", "yaml"])
def test_the_command_arrives_verbatim(scene, how):
    scene.write("words.py", ARGV)
    python = sys.executable
    args = [*VERBATIM, "${local_rank}-${local_rank}"]
    if how == "yaml":
        quoted = "".join(f"  - {_quoted(arg)}\n" for arg in ["words.py", *args])
        scene.write("job.yaml", f"spec:\n  entrypoint: {python}\n  args:\n  " + quoted.lstrip())
        words = ["-c", "job.yaml"]
    else:
        words = {
            "--": ["--", python, "words.py", *args],
            "script": ["words.py", *args],
            "-m": ["-m", "words", *args],
        }[how]
    run = scene.run("logs.prefix=", *words)
    assert run.code == 0, run.err
    assert eval(run.out) == [*VERBATIM, "0-0"]


def _quoted(text: str) -> str:
    """A scalar of YAML in single quotes, or in double ones where it has a newline in it."""
    if "\n" in text:
        return '"' + text.replace("\n", "\\n") + '"'
    return "'" + text.replace("'", "''") + "'"


def test_the_interpreter_can_be_chosen(scene):
    """As with torchrun, PYTHON_EXEC replaces the interpreter of scripts and modules."""
    scene.write("train.py", "")
    fake = scene.write("fake", '#!/bin/sh\necho "$0" "$@"\n')
    fake.chmod(0o755)
    for words in (["train.py", "x"], ["-m", "train", "x"]):
        run = scene.run("logs.prefix=", *words, env={"PYTHON_EXEC": str(fake)})
        assert run.out.split() == [str(fake), *words]


def test_a_module_is_found_where_the_workers_run(scene):
    """With ``spec.cwd`` the module stands there, not where the agent was started."""
    scene.write("deep/pkg/__init__.py", "")
    scene.write("deep/pkg/mod.py", "print('here I am')")
    run = scene.run("logs.prefix=", "spec.cwd=deep", "-m", "pkg.mod")
    assert (run.code, run.out) == (0, "here I am\n"), run.err


@pytest.mark.parametrize("place", ["current folder", "beside the job file"])
def test_a_plugin_is_found_by_the_installed_command(scene, place):
    """The installed command's own path holds neither folder."""
    name = "mine.py" if place == "current folder" else "jobs/mine.py"
    scene.write(
        name,
        "from elastic_fsm import condition\n"
        "@condition\n"
        "def never(event, facts):\n"
        "    return False\n",
    )
    scene.write("jobs/job.yaml", "spec: {max_restarts: 3}\n")
    words = ["plugins=[mine]", "machine.transitions.restart.conditions=[never]"]
    command = [sys.executable, "-P", "-m", "elastic_fsm", "run"]
    run = scene.run("-c", "jobs/job.yaml", *words, "--", "sh", "-c", "exit 3", argv=command)
    assert run.code == 3, run.err
    assert len(run.report["attempts"]) == 1


def test_the_dry_run_starts_nothing(scene):
    run = scene.run("-n", "2", "--dry-run", "spec.env.A_TOKEN=geheim", "--", "touch", "made")
    assert run.code == 0
    assert sorted(path.name for path in scene.folder.iterdir()) == ["bell", "gate"]
    assert "geheim" not in run.out
    for part in ("touch made", "RANK=1", "WORLD_SIZE=2", "attempt_0/1/stderr.log"):
        assert part in run.out

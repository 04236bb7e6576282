"""Own rules in real runs: a state of one's own, a command, errors that end as declared."""

from __future__ import annotations

import re
import shlex

import pytest
from test_documentation import DOCS, blocks, commands

pytestmark = pytest.mark.slow

# Rings the bell when it runs, and when it hears SIGUSR1; then waits to be let go.
LISTENER = """\
import os, signal, sys
def ring(word):
    with open(os.environ["BELL"], "w") as bell:
        print(word, os.environ["RANK"], file=bell)
def finish(*args):
    ring("heard")
    with open(os.environ["GATE"], "rb", buffering=0) as gate:
        gate.read(1)
    sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
signal.signal(signal.SIGUSR1, finish)
ring("up")
while True:
    signal.pause()
"""


def from_the_documentation() -> tuple[str, list[str]]:
    """The DRAINING state of the tutorial, as a file and as words of a command line."""
    text = (DOCS / "own_machine.md").read_text()
    assert "DRAINING" in text
    file = next(t for kind, t in blocks("own_machine.md") if t.startswith("# file: drain.yaml"))
    words = next(
        words
        for kind, t in blocks("own_machine.md")
        if kind == "console"
        for words, _ in commands(t)
        if any(word.startswith("machine.states.DRAINING=") for word in words)
    )
    return file, words[1:]


@pytest.mark.parametrize("way", ["a file", "overrides alone"])
def test_a_state_of_ones_own_lets_workers_finish(scene, way):
    file, words = from_the_documentation()
    scene.write("worker.py", LISTENER)
    scene.write("drain.yaml", file)
    options = ["-c", "drain.yaml"] if way == "a file" else words
    run = scene.start(*options, "-n", "2", "worker.py")
    assert sorted(scene.bell.wait(2)) == ["up 0", "up 1"]
    run.enters("HEALTHY")
    run.signal("SIGUSR1")
    assert sorted(scene.bell.wait(2)) == ["heard 0", "heard 1"]
    run.enters("DRAINING")
    scene.gate.open(2)
    assert run.wait() == 0
    assert run.path == [
        "INIT", "JOINING", "STARTING", "HEALTHY", "DRAINING", "SETTLING", "SUCCEEDED",
    ]  # fmt: skip
    assert len(file.splitlines()) <= 11


def test_a_worker_that_fails_while_draining(scene):
    scene.write("worker.py", LISTENER)
    scene.write("drain.yaml", from_the_documentation()[0])
    run = scene.start("-c", "drain.yaml", "-n", "1", "worker.py", "7")
    scene.bell.wait(1)
    run.enters("HEALTHY")
    run.signal("SIGUSR1")
    scene.bell.wait(1)
    scene.gate.open(1)
    assert run.wait() == 7
    assert run.path[-5:] == ["HEALTHY", "DRAINING", "UNHEALTHY", "DOUBTING", "FAILED"]


def test_a_command_tells_of_the_failure(scene):
    """The one of the tutorial: its event on standard input, and the run waits for its end."""
    file = next(t for _, t in blocks("own_machine.md") if t.startswith("# file: notify.yaml"))
    scene.write("notify.yaml", file)
    script = scene.write("notify.sh", "#!/bin/sh\necho to $1: $(cat) >> told\necho done\n")
    script.chmod(0o755)
    run = scene.run("-c", "notify.yaml", "-n", "2", "false")
    assert run.code == 1
    told = (scene.folder / "told").read_text()
    event = re.search(r"`(\{\"name\".*?\})`", (DOCS / "own_machine.md").read_text())[1]
    assert told == f"to ops: {event}\n"
    assert "done\n" in run.err


@pytest.mark.parametrize(
    ("state", "argv", "cause"),
    [
        ("HEALTHY", "[sh, -c, 'echo no such host >&2; exit 3']", "exited with 3: no such host"),
        ("FAILED", "[sh, -c, 'echo no such host >&2; exit 3']", "exited with 3: no such host"),
        ("FAILED", "[./nowhere]", "cannot be started: No such file or directory: ./nowhere"),
        ("FAILED", "[sleep, '600']", "took longer than 0.1 s"),
        ("HEALTHY", "[sleep, '601']", "was killed at the end of the run"),
    ],
)
def test_a_command_that_fails_is_told_of(scene, state, argv, cause):
    """On the console, in the journal and by explain, also at the end of the run."""
    timeout = "null" if "601" in argv else "0.1"
    words = f"{{argv: {argv}, timeout: {timeout}, name: tell}}"
    run = scene.start(
        f"machine.states.{state}.on_enter=[{{run_command: {words}}}]",
        "--", "sh", "-c", "read x <$GATE; exit 7",
    )  # fmt: skip
    run.enters("HEALTHY")
    if state == "HEALTHY" and "601" not in argv:
        run.sees("the command tell")
    scene.gate.open(1)
    assert run.wait() == 7
    line = f"the command tell {cause}"
    (told,) = run.report["failed_commands"]
    assert (told["name"], told["times"]) == ("tell", 1)
    assert (told["reason"] or f"exited with {told['exit_code']}: {told['last_line']}") in line
    assert run.err.count(line) == 1
    assert [r["outcome"] for r in run.journal if _event(r) == "command_failed"] == ["ignored"]
    explained = scene.run(verb="explain")
    assert line in explained.out


def _event(record) -> str:
    return record.get("event", {}).get("name", "")


def test_a_command_is_neither_taken_for_a_worker_nor_left_behind(scene):
    """It survives the stop of the group, which takes down all strays, and not the run."""
    words = "{argv: [sh, -c, 'echo command > $BELL; exec sleep $SLEEP'], timeout: null}"
    run = scene.start(
        "spec.max_restarts=1",
        f"machine.states.HEALTHY.on_enter=[{{run_command: {words}}}]",
        "--", "sh", "-c", "echo worker > $BELL; head -n 1 $GATE; exit 3",
    )  # fmt: skip
    assert sorted(scene.bell.wait(2)) == ["command", "worker"]
    scene.gate.open(1)
    assert sorted(scene.bell.wait(2)) == ["command", "worker"]
    commands = [w for w in scene.survivors().values() if "sleep" in w and "run_command" not in w]
    assert len(commands) == 2
    scene.gate.open(1)
    assert run.wait() == 3
    assert scene.survivors() == {}


def test_a_command_dies_with_the_agent(scene):
    words = "{argv: [sh, -c, 'echo command > $BELL; exec sleep $SLEEP'], timeout: null}"
    run = scene.start(
        f"machine.states.HEALTHY.on_enter=[{{run_command: {words}}}]",
        "--",
        "sleep",
        scene.env["SLEEP"],
    )
    scene.bell.wait(1)
    watch = scene.watch()
    run.signal("SIGKILL")
    watch.ended()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("machine.transitions.worker_lost.conditions=[wrong]", "wrong"),
        ("machine.transitions.worker_lost.conditions=[leaves]", "leaves"),
        ("machine.states.HEALTHY.on_enter=[breaks]", "breaks"),
        ("machine.states.UNHEALTHY.on_enter=[quits]", "quits"),
        ("machine.states.HEALTHY.timeouts={bored: odd}", "bored"),
    ],
)
def test_an_error_in_a_rule_ends_as_declared(scene, change, what):
    scene.write(
        "faulty.py",
        "import sys\n"
        "from elastic_fsm import action, condition, delay\n"
        "@condition\ndef wrong(event, facts):\n    return 1 / 0\n"
        "@condition\ndef leaves(event, facts):\n    sys.exit(0)\n"
        "@action\ndef breaks(agent, event):\n    raise OSError('no')\n"
        "@action\ndef quits(agent, event):\n    sys.exit(0)\n"
        "@delay\ndef odd(facts, settings):\n    return 'tomorrow'\n",
    )
    extra = "machine.transitions.bored={trigger: bored, source: [HEALTHY]}"
    words = [change, extra] if "bored" in change else [change]
    run = scene.run("plugins=[faulty]", *words, "-n", "2", "--", "sh", "-c", "exit 5")
    assert run.code == 70, run.err
    assert run.path[-2:] == ["ABORTING", "UNKNOWN"]
    assert "Traceback" not in run.err
    assert what in run.err


def test_the_words_of_the_tutorial_are_quoted_for_a_shell():
    _, words = from_the_documentation()
    assert all(len(shlex.split(shlex.quote(word))) == 1 for word in words)

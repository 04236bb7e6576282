"""Bad input: one clear screen, exit code 2, and nothing was started or written."""

from __future__ import annotations

import re
import sys

import pytest

pytestmark = pytest.mark.slow

# The words, and what the screen must say: the place, what is wrong, and what to do.
CASES = {
    "a misspelt key": (
        ["spec.max_restart=2", "--", "true"],
        "command line: spec.max_restart: ",
        "did you mean 'spec.max_restarts'",
    ),
    "torchrun's name as a key": (
        ["nproc_per_node=2", "--", "true"],
        "command line: nproc_per_node: ",
        "spec.local_world_size=2",
    ),
    "torchrun's name as a key of a group": (
        ["spec.nproc_per_node=2", "--", "true"],
        "command line: spec.nproc_per_node: ",
        "spec.local_world_size=2",
    ),
    "torchrun's option": (
        ["--nproc_per_node=2", "train.py"],
        "command line: unknown option --nproc_per_node",
        "spec.local_world_size=2",
    ),
    "torchrun's option with its value apart": (
        ["--max-restarts", "3", "train.py"],
        "command line: unknown option --max-restarts",
        "spec.max_restarts=3",
    ),
    "an option that does not exist": (["--foo"], "unknown option --foo", "--dry-run"),
    "an option without its value": (["-n"], "-n needs a value", "-n 4"),
    "no workers": (["-n", "0", "--", "true"], "spec.local_world_size: 0 workers", "at least 1"),
    "too many workers": (["-n", "5000000", "--", "true"], "5000000 workers", "at most 4194304"),
    "two job files": (["-c", "a.yaml", "-c", "b.yaml", "true"], "-c is given twice", "defaults"),
    "an override in two words": (["spec.max_restarts", "3", "true"], "not found", "restarts=…"),
    "an override with a colon": (["spec.max_restarts:3", "true"], "not found", "restarts=…"),
    "a command said twice": (
        ["spec.args=[a]", "--", "echo", "x"],
        "command line: spec.args: the command stands at the end of the line, too",
        "leave one of them out",
    ),
    "a rank that is not there": (
        ["logs.console_ranks=[2]", "-n", "2", "true"],
        "logs.console_ranks: there is no rank 2",
        "ranks go from 0 to 1",
    ),
    "no command": (["-n", "2"], "command line: there is no command", "elastic-fsm run -n 4"),
    "no command after the dashes": (["--"], "command line: there is no command", "elastic-fsm"),
    "a command that is not there": (["nosuch"], "command not found: 'nosuch'", "PATH"),
    "a command that cannot be run": (["./plain"], "'./plain' may not be executed", "chmod +x"),
    "a script that is not there": (["trian.py"], "no such file: 'trian.py'", "'train.py'"),
    "a module that is not there": (["-m", "nosuch.mod"], "no module named 'nosuch'", "python"),
    "a file as a module": (["-m", "train.py"], "no module 'py' in 'train'", "-m train"),
    "a path as a module": (["-m", "dir.py/main"], "'dir.py/main' is a path", "-m pkg.train"),
    "a shell script that does not say so": (
        ["./mute.sh"],
        "does not say what runs it",
        "#!/bin/sh",
    ),
    "a place to meet, and nobody to meet": (
        ["rendezvous.endpoint=host0:29400", "--", "true"],
        "command line: rendezvous.endpoint: rendezvous=standalone meets nobody",
        "choose rendezvous=c10d",
    ),
    "no module": (["-m"], "-m needs the name of a module", "-m pkg.train"),
    "an unknown machine": (["machine=elastik", "true"], "machine: there is", "elastic"),
    "an unknown launcher": (["launcher=foo", "true"], "launcher: there is", "subprocess"),
    "a launcher by name": (["launcher.name=foo", "true"], "unknown launcher", "subprocess"),
    "a folder called like a script": (["dir.py"], "'dir.py' is a folder", "dir.py/main.py"),
    "NUL in an argument": (["-c", "nul.yaml"], "nul.yaml:2: spec.args.0: ", "NUL"),
    "a pause for a stop": (["stop.signal=SIGSTOP", "true"], "stop.signal: SIGSTOP", "pauses"),
    "no folder to work in": (["spec.cwd=nosuch", "true"], "spec.cwd: ", "does not exist"),
    "no folder to write to": (
        ["run_dir=/proc/nosuch", "true"],
        "run_dir: the run directory cannot be written",
        "run_dir=PATH",
    ),
    "a file as the folder": (["run_dir=plain", "true"], "cannot be written", "run_dir=PATH"),
    "an override that Hydra cannot parse": (
        ["spec.role=a{b", "true"],
        "command line: spec.role: Hydra cannot read 'a{b'",
        "'spec.role=\"a{b\"'",
    ),
    "a job file that is not there": (["-c", "nosuch.yaml"], "nosuch.yaml: no such file", ""),
    "a YAML syntax error": (["-c", "broken.yaml"], "broken.yaml:4:1: not YAML", "too early"),
    "a plug-in that is not there": (["plugins=[nosuch]", "true"], "plugins: ", "'nosuch'"),
    "a plug-in that leaves": (["plugins=[leaves]", "true"], "plugins: ", "'leaves'"),
    "not enough devices": (
        ["-n", "3", "spec.virtual_local_rank=true", "true"],
        "virtual_local_rank",
        "CUDA_VISIBLE_DEVICES=4,5",
    ),
    "an unknown verb": (None, "there is no verb 'rnu'", "did you mean 'run'"),
}


def check_refused(scene, run) -> str:
    """What every refusal has in common; returns the screen."""
    assert run.code == 2
    assert run.out == ""
    for word in ("Traceback", "omegaconf", "OmegaConf", "hydra.", "Error executing"):
        assert word not in run.err
    assert len(run.err.splitlines()) <= 24
    assert run.err.startswith("elastic-fsm: nothing was started")
    assert not (scene.folder / "elastic_runs").exists()
    assert not (scene.folder / "outputs").exists()
    return run.err


@pytest.mark.parametrize("case", CASES)
def test_refused(scene, case):
    scene.write("plain", "no program\n")
    scene.write("train.py", "")
    scene.write("dir.py/main.py", "")
    scene.write("mute.sh", "echo hi\n").chmod(0o755)
    scene.write("nul.yaml", 'spec:\n  args: ["a\\0b"]\n  entrypoint: "true"\n')
    scene.write("leaves.py", "raise SystemExit(5)")
    scene.write("broken.yaml", "spec: {role: a}\nstop: {grace: [\nlogs: x\n")
    words, *expected = CASES[case]
    env = {"CUDA_VISIBLE_DEVICES": "4,5"}
    verb = "rnu" if words is None else "run"
    screen = check_refused(scene, scene.run(*(words or ["true"]), verb=verb, env=env))
    for part in expected:
        assert part in screen


FIVE_MISTAKES = """\
spec:
  entrypoint: "true"
machine:
  states:
    HEALTHY:
      worker_state: HAELTHY
    STOPPING:
      on_enter: [stop_wrokers]
    BACKOFF:
      timeouts: {backoff_elapsed: restart_dealy}
  transitions:
    started:
      dest: HAPPY
    restart:
      conditions: [restart_alowed]
"""


def test_all_mistakes_of_a_machine_file_at_once(scene):
    scene.write("job.yaml", FIVE_MISTAKES)
    screen = check_refused(scene, scene.run("-c", "job.yaml"))
    found = re.findall(r"job\.yaml:(\d+): (machine\.[\w.]+)", screen)
    lines = FIVE_MISTAKES.splitlines()
    for wrong, right in {
        "HAELTHY": "HEALTHY",
        "stop_wrokers": "stop_workers",
        "restart_dealy": "restart_delay",
        "HAPPY": "HEALTHY",
        "restart_alowed": "restart_allowed",
    }.items():
        (line,) = [n for n, text in enumerate(lines, 1) if wrong in text]
        assert str(line) in [where for where, _ in found], wrong
        assert wrong in screen
        assert right in screen
    assert {path.split(".")[2] for _, path in found} >= {
        *("HEALTHY", "STOPPING", "BACKOFF", "started", "restart")
    }


def test_several_problems_of_different_kinds_at_once(scene):
    screen = check_refused(scene, scene.run("stop.grace=soon", "spec.role=a", "-n", "0", "true"))
    assert "2 problems" in screen
    assert "stop.grace" in screen
    assert "local_world_size" in screen


def test_a_run_id_in_use_is_refused(scene):
    """The second agent says who holds it, and leaves the first one's files alone."""
    first = scene.start("run_id=mine", "--", "sh", "-c", 'echo >"$BELL"; read x <"$GATE"')
    scene.bell.wait()
    second = scene.run("run_id=mine", "--", "true")
    assert second.code == 2
    assert f"in use by the agent with pid {first.pid}" in second.err
    assert "run_id" in second.err
    scene.gate.open()
    assert first.wait() == 0
    assert len(list(first.node.glob("attempt_*"))) == 1
    assert len(list(first.node.glob("journal*"))) == 1


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_without_standard_error_nothing_is_said(scene, streams):
    """The code tells enough, and standard output belongs to the workers."""
    line = f'exec "$0" -m elastic_fsm run nosuch {streams}'
    run = scene.run(argv=["sh", "-c", line, sys.executable])
    assert (run.code, run.out, run.err) == (2, "", "")


def test_a_full_standard_output_is_told(scene):
    run = scene.run(argv=["sh", "-c", 'exec "$0" -m elastic_fsm config >/dev/full', sys.executable])
    assert (run.code, run.out) == (2, "")
    assert run.err == "elastic-fsm: [Errno 28] No space left on device\n"


def test_a_run_without_standard_error_runs(scene):
    line = 'exec "$0" -m elastic_fsm run -- sh -c "echo out; echo err >&2" 2>&-'
    run = scene.run(argv=["sh", "-c", line, sys.executable])
    assert (run.code, run.out) == (0, "[default0]: out\n")


INTERRUPTS = """\
from elastic_fsm import condition

@condition
def interrupted(event, facts):
    raise KeyboardInterrupt
"""


def test_a_rule_that_interrupts_ends_like_a_key(scene):
    scene.write("rules.py", INTERRUPTS)
    change = "machine.transitions.all_done.conditions=[interrupted]"
    run = scene.run("plugins=[rules]", change, "--", "true")
    assert run.code == 130
    assert "Traceback" not in run.err
    assert not scene.survivors()


@pytest.mark.parametrize("verb", ["run", "check"])
def test_a_plug_in_that_interrupts_ends_like_a_key(scene, verb):
    scene.write("rules.py", "raise KeyboardInterrupt\n")
    run = scene.run("plugins=[rules]", verb=verb)
    assert (run.code, run.out, run.err) == (130, "", "elastic-fsm: interrupted\n")


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "\x1b[2J.yaml"],
        ["-c", "job.yaml"],
        ["--dry-run", "--", "echo", "\x1b[2J"],
        ["run_id=\x1b[2J", "--", "true"],
    ],
    ids=["file", "key", "dry run", "run id"],
)
def test_what_was_typed_cannot_control_the_terminal(scene, words):
    scene.write("job.yaml", 'spec: {"\\e[2J": 1}\n')
    run = scene.run(*words)
    assert "\\x1b[2J" in run.out + run.err
    assert "\x1b" not in run.out + run.err


@pytest.mark.parametrize("verb", ["run", "config", "check"])
def test_a_current_folder_that_is_gone(scene, verb):
    line = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m elastic_fsm "$@"'
    run = scene.run(verb, argv=["sh", "-c", line, scene.python])
    assert (run.code, run.out) == (2, "")
    assert run.err == "elastic-fsm: the current folder has been removed: go to another one\n"


@pytest.mark.parametrize("files", range(2, 9))
def test_a_place_with_room_for_too_few_files(scene, files):
    """Whichever of the first files it is that finds no room: nothing is started, or left."""
    script = '"$@"; code=$?; ls -A full; exit $code'
    within = scene.small_disk("full", f"nr_inodes={files}", script)
    words = ["run_dir=full", "--", "touch", "started"]
    run = scene.run(*words, argv=[*within, sys.executable, "-m", "elastic_fsm", "run"])
    screen = check_refused(scene, run)
    assert "run_dir: the run directory cannot be written: No space left on device: " in screen
    assert f"{scene.folder}/full/" in screen
    assert not (scene.folder / "started").exists()

"""Stop signals in every state: everything ends, without a traceback, with 128 + n."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import time

import psutil
import pytest
from process_harness import WAIT, Reader, Watch

pytestmark = pytest.mark.slow

SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"]
READY = 'echo $$ >"$BELL"; '
SLEEPS = READY + 'exec sleep "$SLEEP"'
STUBBORN = f"trap '' TERM INT HUP; {READY} while :; do sleep \"$SLEEP\"; done"
AT_GATE = READY + 'read x <"$GATE"; '

PYTHON = """
import os, signal, sys
{}with open(os.environ["BELL"], "w") as bell:
    bell.write(f"{{os.getpid()}}\\n")
with open(os.environ["GATE"], "rb", buffering=0) as gate:
    gate.read(1)
"""

# A module on the path of the agent: at the first event of a kind it rings the bell, and waits.
HOLD = """
import os, sys
wanted = os.environ.get("HOLD_AT", "").split()
def hold(event, args):
    if wanted and [event, *map(str, args[:1])][:len(wanted)] == wanted:
        wanted.clear()
        with open(os.environ["BELL"], "w") as bell:
            bell.write("held\\n")
        with open(os.environ["GATE"], "rb", buffering=0) as gate:
            gate.read(1)
sys.addaudithook(hold)
"""


@pytest.fixture
def held_at(scene):
    """The environment of an agent that is held at an audit event: ``import hydra``."""
    scene.write("sitecustomize.py", HOLD)

    def environment(event: str) -> dict[str, str]:
        return {"PYTHONPATH": str(scene.folder), "HOLD_AT": event}

    return environment


def check_stopped(run, name: str, *, restarts: int = 0) -> None:
    assert run.wait() == 128 + signal.Signals[name]
    assert "Traceback" not in run.err + run.out
    assert run.report["state"] == run.report["final_state"] == "STOPPED"
    assert run.report["exit_code"] == 128 + signal.Signals[name]
    assert run.report["signal"] == name
    assert run.report["restarts_used"] == restarts


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("module", ["elastic_fsm.cli", "omegaconf", "hydra", "elastic_fsm.launch"])
def test_while_the_agent_loads(scene, held_at, name, module):
    env = held_at(f"import {module}")
    run = scene.start("-n", "2", "--", "sleep", scene.env["SLEEP"], env=env)
    scene.bell.wait()
    run.signal(name)
    assert run.wait() == 128 + signal.Signals[name]
    assert run.err == f"elastic-fsm: {name}\n"
    assert not (scene.folder / "elastic_runs").exists()


def test_control_c_before_anything_is_loaded(scene, held_at):
    """The interpreter would show a traceback."""
    run = scene.start("--", "true", env=held_at("import elastic_fsm.entry"))
    scene.bell.wait()
    run.signal("SIGINT")
    assert run.wait() == -signal.SIGINT
    assert run.err == ""


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize(
    ("state", "others"),
    [
        ("JOINING", ["join_rendezvous"]),
        ("STARTING", ["start_workers"]),
        ("HEALTHY", []),
        ("BACKOFF", []),
        ("SETTLING", ["enter_exit_barrier"]),
    ],
)
def test_while_the_agent_is_busy(scene, hold, name, state, others):
    """The signal comes while an action runs, so other events may be in the inbox before it."""
    script = {"BACKOFF": "exit 3", "SETTLING": "exit 0"}.get(state, 'exec sleep "$SLEEP"')
    words = [*hold(state, *others), "spec.max_restarts=1", "-n", "8", "--", "sh", "-c", script]
    run = scene.start(*words)
    assert scene.bell.wait() == [f"hold {state}"]
    run.signal(name)
    scene.gate.open()
    check_stopped(run, name)
    assert run.path[-3:] == [state, "STOPPING", "STOPPED"]


@pytest.mark.parametrize("name", SIGNALS)
def test_before_the_run_begins(scene, held_at, name):
    """The agent listens already, and starts its guardian; the signal is the first event."""
    env = held_at("subprocess.Popen")
    run = scene.start("-n", "2", "--", "sleep", scene.env["SLEEP"], env=env)
    scene.bell.wait()
    run.signal(name)
    scene.gate.open()
    check_stopped(run, name)
    assert run.path == ["INIT", "STOPPING", "STOPPED"]


def test_while_the_run_gets_its_folder(scene, held_at):
    """No folder is left without a report."""
    run = scene.start("--", "sleep", scene.env["SLEEP"], env=held_at("os.symlink"))
    scene.bell.wait()
    assert (scene.folder / "elastic_runs").exists()
    run.signal("SIGTERM")
    scene.gate.open()
    check_stopped(run, "SIGTERM")
    assert run.path == ["INIT", "STOPPING", "STOPPED"]


@pytest.mark.parametrize("name", SIGNALS)
def test_B5_healthy(scene, name):
    run = scene.start("-n", "8", "--", "sh", "-c", SLEEPS)
    scene.bell.wait(8)
    run.enters("HEALTHY")
    run.signal(name)
    check_stopped(run, name)
    (attempt,) = run.report["attempts"]
    assert attempt["causes"] == []
    assert {c["signal"] for c in attempt["consequences"]} == {name}
    assert sorted(c["rank"] for c in attempt["consequences"]) == list(range(8))


@pytest.mark.parametrize("name", SIGNALS)
def test_unhealthy(scene, name):
    """A stop is under way: the signal joins it, a second one cuts its grace short."""
    script = f"if [ $RANK = 1 ]; then {AT_GATE} exit 3; else {STUBBORN}; fi"
    words = ["spec.max_restarts=5", "stop.grace=10m", "stop.window=0", "-n", "2"]
    run = scene.start(*words, "--", "sh", "-c", script)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    scene.gate.open()
    run.enters("UNHEALTHY")
    run.signal(name)
    run.enters("STOPPING")
    run.signal("SIGINT")
    check_stopped(run, name)
    (attempt,) = run.report["attempts"]
    assert [c["rank"] for c in attempt["causes"]] == [1]
    assert [(c["rank"], c["signal"]) for c in attempt["consequences"]] == [(0, "SIGKILL")]


@pytest.mark.parametrize("name", SIGNALS)
def test_doubting(scene, name):
    script = READY + 'if [ $RANK = 1 ]; then kill -TERM $$; fi; exec sleep "$SLEEP"'
    words = ["stop.window=10m", "spec.max_restarts=5", "-n", "2"]
    run = scene.start(*words, "--", "sh", "-c", script)
    run.enters("DOUBTING")
    run.signal(name)
    check_stopped(run, name)
    assert run.path[-4:] == ["UNHEALTHY", "DOUBTING", "STOPPING", "STOPPED"]


@pytest.mark.parametrize("name", SIGNALS)
def test_backoff(scene, name):
    words = ["restart=backoff", "restart.delay=60", "spec.max_restarts=5", "-n", "2"]
    run = scene.start(*words, "--", "sh", "-c", "exit 3")
    run.enters("BACKOFF")
    run.signal(name)
    check_stopped(run, name)
    assert len(run.report["attempts"]) == 1


@pytest.mark.parametrize("name", SIGNALS)
def test_B7_a_second_signal_cuts_the_grace_short(scene, name):
    run = scene.start("-n", "2", "stop.grace=null", "stop.window=0", "--", "sh", "-c", STUBBORN)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    run.signal(name)
    run.enters("STOPPING")
    run.signal("SIGINT")
    check_stopped(run, name)
    (attempt,) = run.report["attempts"]
    assert {c["signal"] for c in attempt["consequences"]} == {"SIGKILL"}


@pytest.mark.parametrize("name", SIGNALS)
def test_after_the_end(scene, name):
    """Nobody reads the console, so the agent cannot show the rest: it must still end, and with
    the exit code of the run."""
    script = 'head -c 3000000 /dev/zero | tr "\\0" "x"'
    _, write = scene.pipe()
    run = scene.start("--", "sh", "-c", script, stdout=write)
    run.enters("SUCCEEDED")
    run.signal(name)
    assert run.wait() == run.report["exit_code"] == 0
    assert "Traceback" not in run.err


# Starts a command as a thread does that takes no signals.
DEAF_STARTER = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_that_were_blocked_at_the_start_are_heard(scene, name):
    """By the agent and by its workers; a block is no wish of the user's, as ``nohup`` is."""
    python = [scene.python, "-c", DEAF_STARTER, scene.python, "-m", "elastic_fsm", "run"]
    # Not a shell, for that takes away the block itself.
    script = "import os, signal; signal.signal(2, signal.SIG_DFL); "
    script += 'print(1, file=open(os.environ["BELL"], "w"), flush=True); '
    script += 'os.execlp("sleep", "sleep", os.environ["SLEEP"])'
    run = scene.start("--", scene.python, "-c", script, argv=python)
    scene.bell.wait()
    run.enters("HEALTHY")
    run.signal(name)
    check_stopped(run, name)


@pytest.mark.parametrize("name", SIGNALS)
def test_an_inherited_ignore_is_honoured(scene, name):
    """As with ``nohup``: the agent ignores the signal, and so do its workers."""
    script = f'trap \'\' {name[3:]}; exec "$0" "$@"'
    python = [scene.python, "-m", "elastic_fsm", "run"]
    worker = READY + f'kill -{name[3:]} $$; read x <"$GATE"'
    run = scene.start("-n", "2", "--", "sh", "-c", worker, argv=["sh", "-c", script, *python])
    scene.bell.wait(2)
    run.enters("HEALTHY")
    run.signal(name)
    scene.gate.open(2)
    assert run.wait() == 0
    assert "signal_received" not in [r["event"]["name"] for r in run.journal[1:]]


@pytest.mark.parametrize("first", ["agent", "workers"])
@pytest.mark.parametrize("name", SIGNALS)
def test_a_stop_that_reaches_workers_and_agent(scene, name, first):
    """As a scheduler sends it. The workers die of it at once; nothing is restarted."""
    for gap in (0.0, 0.005, 0.02, 0.05):
        run = scene.start(
            f"run_dir=runs/{gap}", "spec.max_restarts=3", "-n", "3", "--", "sh", "-c", SLEEPS
        )
        pids = [int(line) for line in scene.bell.wait(3)]
        run.enters("HEALTHY")
        targets = [[run.pid], pids]
        for some in targets if first == "agent" else reversed(targets):
            scene.kill(some, name)
            time.sleep(gap)  # the gap between the two is what is tested
        check_stopped(scene.in_dir(run, f"runs/{gap}"), name)
        assert len(run.report["attempts"]) == 1


def test_two_stops_close_together_do_not_cut_the_grace(scene):
    """As when a scheduler signals the agent and its shell passes the signal on."""
    trap = 'trap "echo asked >$BELL; read x <$GATE; exit 0" TERM; '
    script = trap + AT_GATE
    run = scene.start("stop.window=10m", "--", "sh", "-c", script)
    scene.bell.wait()
    run.enters("HEALTHY")
    run.signal("SIGTERM")
    run.enters("STOPPING")
    run.signal("SIGTERM")
    assert scene.bell.wait() == ["asked"]
    scene.gate.open()
    check_stopped(run, "SIGTERM")
    assert "same_signal" in [r.get("transition") for r in run.journal]
    (stopped,) = run.report["attempts"][0]["consequences"]
    assert stopped["exit_code"] == 0


def stop_reaches_workers_first(scene, workers, *words):
    """And the agent while it still doubts that their ends are failures: the run is stopped."""
    run = scene.start("stop.window=10m", "-n", str(workers), *words)
    pids = [int(line) for line in scene.bell.wait(workers)]
    run.enters("HEALTHY")
    scene.kill(pids, "SIGTERM")
    run.enters("DOUBTING")
    run.signal("SIGTERM")
    check_stopped(run, "SIGTERM")


@pytest.mark.parametrize("code", [143, 1])
@pytest.mark.parametrize("budget", [0, 3])
def test_a_stop_that_workers_catch_and_report(scene, code, budget):
    """Shells and many programs catch the signal and exit with 128 + n, training scripts with 1."""
    script = f"trap 'exit {code}' TERM; " + AT_GATE
    budget = f"spec.max_restarts={budget}"
    stop_reaches_workers_first(scene, 2, budget, "--", "sh", "-c", script)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("budget", [0, 3])
def test_a_stop_that_python_catches(scene, budget, workers):
    """It takes its handlers back as it ends, and the others are doing the same."""
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
    budget = f"spec.max_restarts={budget}"
    command = ["--", scene.python, "-c", PYTHON.format(handler)]
    stop_reaches_workers_first(scene, workers, budget, *command)


def test_a_failure_of_python_is_not_doubted(scene):
    """The other worker dies of the agent's signal, and so has no handler for it."""
    script = PYTHON.format("") + "sys.exit(3)"
    words = ["stop.window=10m", "spec.max_restarts=1", "-n", "2"]
    run = scene.start(*words, "--", scene.python, "-c", script)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    scene.gate.open()
    scene.bell.wait(2)
    assert "BACKOFF" in run.path
    assert "DOUBTING" not in run.path
    run.signal("SIGTERM")
    check_stopped(run, "SIGTERM", restarts=1)


# Waits for the signal in place of having a handler; of `_exit` Python takes nothing back.
WAITS_FOR_SIGTERM = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print(os.getpid(), file=open(os.environ["BELL"], "w"), flush=True)
signal.sigwait([signal.SIGTERM])
os._exit(int(os.environ["LOCAL_RANK"]) + 7)
"""


def test_a_stop_that_workers_wait_for(scene):
    """Each may answer it with a code of its own, so that the others tell nothing of the first."""
    command = ["--", scene.python, "-c", WAITS_FOR_SIGTERM]
    stop_reaches_workers_first(scene, 3, "spec.max_restarts=3", *command)


def test_two_stops_close_together_are_one(scene):
    """The second may come while the first is being answered: the report is there in any case."""
    for gap in (0.0, 0.001, 0.003, 0.006, 0.01, 0.02):
        run = scene.start(f"run_dir=runs/{gap}", "-n", "2", "--", "sh", "-c", SLEEPS)
        scene.bell.wait(2)
        run.enters("HEALTHY")
        watch = Watch(scene.survivors())
        run.signal("SIGTERM")
        time.sleep(gap)  # the gap between the two is what is tested
        scene.kill([run.pid], "SIGTERM")
        watch.ended()
        check_stopped(scene.in_dir(run, f"runs/{gap}"), "SIGTERM")
        assert "report   " in run.err


def test_a_stop_that_comes_too_late_changes_nothing(scene):
    """The run is over, and its end is being told."""
    for gap in (0.0, 0.004, 0.012):
        run = scene.start(f"run_dir=runs/{gap}", "--", "sh", "-c", "exit 3")
        run.enters("FAILED")
        time.sleep(gap)  # the gap between the two is what is tested
        scene.kill([run.pid], "SIGTERM")
        assert run.wait() == scene.in_dir(run, f"runs/{gap}").report["exit_code"] == 3
        assert "report   " in run.err


# -- Ctrl-Z ------------------------------------------------------------------------------------


@pytest.fixture
def shell(scene):
    """An interactive shell on a terminal of its own: what it shows, and its keyboard."""
    pid, keyboard = pty.fork()
    if pid == 0:
        os.chdir(scene.folder)
        os.execvpe("sh", ["sh", "-i"], {**scene.env, "PS1": "ready> ", "ENV": ""})
    screen = Reader(os.dup(keyboard))
    screen.wait_for("ready> ")
    yield screen, lambda text: os.write(keyboard, text.encode())
    os.write(keyboard, b"\x03\nexit\n")
    Watch([pid]).ended()
    os.waitpid(pid, 0)
    os.close(keyboard)


def await_stopped(*pids: int) -> None:
    """Until they stand still, of which nothing tells who is not their parent."""
    limit = time.monotonic() + WAIT
    while any(psutil.Process(pid).status() != psutil.STATUS_STOPPED for pid in pids):
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("words", [["logs=terminal"], ["-n", "2"]], ids=["terminal", "two"])
def test_control_z_stops_the_workers_too_and_fg_goes_on(scene, shell, words):
    screen, type_in = shell
    script = f'{READY} read x <"$GATE"; exit 0'
    command = [scene.python, "-m", "elastic_fsm", "run", *words, "--", "sh", "-c", script]
    type_in(shlex.join(command) + "; echo code=$?\n")
    workers = [int(line) for line in scene.bell.wait(2 if "-n" in words else 1)]
    screen.wait_for(r"-> HEALTHY \[")
    type_in("\x1a")
    screen.wait_for(r"suspended by SIGTSTP[^$]*Stopped")
    await_stopped(*workers)
    scene.gate.open(len(workers))
    type_in("fg\n")
    screen.wait_for(r"continued by SIGCONT after \d+ s")
    screen.wait_for(r"SUCCEEDED: run .*exit code 0")


def test_a_grace_does_not_run_out_while_everything_stands_still(scene):
    """The worker, which was stopped with the agent, had no chance to use it."""
    trap = 'trap "echo asked >$BELL; read x <$GATE; exit 0" TERM; '
    run = scene.start("stop.grace=3s", "--", "sh", "-c", trap + AT_GATE)
    (worker,) = map(int, scene.bell.wait())
    run.enters("HEALTHY")
    run.signal("SIGTERM")
    assert scene.bell.wait() == ["asked"]
    run.signal("SIGTSTP")
    run.sees("suspended by SIGTSTP")
    await_stopped(run.pid, worker)
    time.sleep(3.5)  # longer than the grace: this is what is tested
    scene.gate.open()
    run.signal("SIGCONT")
    check_stopped(run, "SIGTERM")
    (stopped,) = run.report["attempts"][0]["consequences"]
    assert stopped["exit_code"] == 0
    notes = [record["note"] for record in run.journal if "note" in record]
    assert notes[0] == "suspended by SIGTSTP, together with the workers"
    assert notes[1].startswith("continued by SIGCONT after ")

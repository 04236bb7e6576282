"""What users want a run to make of signals and exit codes; the names begin with the report's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WAITS = 'echo ready >>"$BELL"; while :; do read x <"$GATE"; done'
TELLS = 'trap \'echo $RANK >>"$BELL"\' USR1; trap "exit 0" USR2; ' + WAITS
SAVES = "trap 'exit 0' USR1; " + WAITS
PASS_ON = (
    "machine.transitions.pass_on={trigger: signal_received, source: [HEALTHY], "
    "conditions: [{signal_in: [SIGUSR1, SIGUSR2]}], after: [signal_workers]}"
)


def test_B3_a_signal_is_passed_on_and_nothing_is_stopped(scene):
    run = scene.start("-n", "2", PASS_ON, "--", "sh", "-c", TELLS)
    assert scene.bell.wait(2) == ["ready", "ready"]
    run.enters("HEALTHY")
    run.signal("SIGUSR1")
    assert sorted(scene.bell.wait(2)) == ["0", "1"]
    run.signal("SIGUSR2")
    assert run.wait() == 0
    assert run.path == ["INIT", "JOINING", "STARTING", "HEALTHY", "SETTLING", "SUCCEEDED"]


def test_B3_which_signals_stop_is_the_users_choice(scene):
    run = scene.start("stop.signals=[SIGUSR1]", "--", "sh", "-c", SAVES)
    scene.bell.wait()
    run.enters("HEALTHY")
    run.signal("SIGUSR1")
    assert run.wait() == 128 + 10
    assert run.report["state"] == "STOPPED"


PREEMPTION = """\
machine:
  states:
    LEAVING: {on_enter: [signal_workers], ignores: [membership_changed]}
    PREEMPTED: {final: true, worker_state: STOPPED, exit_code: 75}
  transitions:
    preempt:
      {trigger: signal_received, source: [HEALTHY], dest: LEAVING,
       conditions: [{signal_in: [SIGUSR1]}]}
    saved:
      {trigger: worker_exited, source: [LEAVING], dest: PREEMPTED, conditions: [all_succeeded]}
    not_saved:
      {trigger: worker_exited, source: [LEAVING], dest: UNHEALTHY, conditions: [worker_failed]}
    one_saved: {trigger: worker_exited, source: [LEAVING]}
"""


def test_B8_a_warning_of_preemption_is_a_phase_of_its_own(scene):
    """Workers save and end with 0; the scheduler is told to try again; no restart is spent."""
    scene.write("job.yaml", PREEMPTION)
    words = ["-c", "job.yaml", "-n", "2", "spec.max_restarts=3"]
    run = scene.start(*words, "--", "sh", "-c", SAVES)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    run.signal("SIGUSR1")
    assert run.wait() == 75
    assert run.path[-3:] == ["HEALTHY", "LEAVING", "PREEMPTED"]
    assert (run.report["restarts_used"], len(run.report["attempts"])) == (0, 1)


def test_C3_a_kill_that_nobody_knows_of(scene):
    run = scene.run("--", "sh", "-c", "kill -KILL $$")
    assert run.code == 137
    (cause,) = run.report["attempts"][0]["causes"]
    assert cause["message"].startswith("not sent by the agent")
    assert cause["message"] in run.err


@pytest.fixture
def small_memory():
    """A control group with room for an agent, and too little for a greedy worker."""
    group = Path(f"/sys/fs/cgroup/memory/elastic_fsm_test_{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("150000000")
    except OSError:
        pytest.skip("no memory limit can be set here")
    yield group
    group.rmdir()


def test_C3_out_of_memory_is_called_so(scene, small_memory):
    enter = f'echo $$ >{small_memory}/cgroup.procs; exec "$0" -m elastic_fsm run "$@"'
    scene.write("greedy.py", "all = []\nwhile True:\n    all.append(bytearray(10**7))\n")
    run = scene.run("greedy.py", argv=["sh", "-c", enter, scene.python])
    assert run.code == 137
    (cause,) = run.report["attempts"][0]["causes"]
    assert "out of memory" in cause["message"]


ONLY_SOME = "machine.transitions.restart.conditions=[restart_allowed,{exit_code_in: [75, SIGKILL]}]"


@pytest.mark.parametrize(
    ("script", "attempts", "code"),
    [("exit 75", 3, 75), ("kill -KILL $$", 3, 137), ("exit 1", 1, 1)],
)
def test_D4_only_some_ends_are_worth_a_restart(scene, script, attempts, code):
    run = scene.run("spec.max_restarts=2", ONLY_SOME, "--", "sh", "-c", script)
    assert run.code == code
    assert len(run.report["attempts"]) == attempts


@pytest.mark.parametrize(("exit_code", "attempts"), [(75, 2), (1, 1)])
def test_D4_also_where_a_failure_is_doubted(scene, exit_code, attempts):
    """Of a single Python worker it cannot be told whether it caught a signal."""
    script = f"import sys; sys.exit({exit_code})"
    run = scene.run("spec.max_restarts=1", ONLY_SOME, "--", scene.python, "-c", script)
    assert run.code == exit_code
    assert "DOUBTING" in run.path
    assert len(run.report["attempts"]) == attempts

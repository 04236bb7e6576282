"""Nothing that a worker started outlives its attempt, nor the agent, however it ends."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from process_harness import MARK, Reader, Watch, is_alive

pytestmark = pytest.mark.slow

# Ways of getting away from a worker. Each process that stays says its pid, and sleeps.
ESCAPES = {
    "a child": "sh say &",
    "a session of its own": "setsid sh say &",
    "a double fork": "(sh say &)",
    "a double fork into a session": "(setsid sh say &)",
    "one that forks again": "(setsid sh again &)",
    "no environment": 'env -i BELL="$BELL" SLEEP="$SLEEP" setsid sh say &',
    "deaf": "(setsid sh deaf &)",
}
# What the guardian cannot find, because nothing tells any more whose it was.
UNTRACEABLE = {
    "no environment, by a double fork": f"({ESCAPES['no environment']})",
}
SAY = 'echo $$ >>"$BELL"\nexec sleep "$SLEEP"\n'
DEAF = 'trap \'\' TERM\necho $$ >>"$BELL"\nwhile :; do sleep "$SLEEP"; done\n'
AGAIN = 'trap \'sh deaf & exit\' TERM\necho $$ >>"$BELL"\nsleep "$SLEEP" & wait\n'


@pytest.fixture(autouse=True)
def scripts(scene):
    for name, text in {"say": SAY, "deaf": DEAF, "again": AGAIN}.items():
        scene.write(name, text)


@pytest.fixture
def bystander(scene):
    """A process of the same parent that the agent has nothing to do with."""
    env = {**os.environ, MARK: "another"}
    process = subprocess.Popen(["sleep", "600"], env=env)
    yield process
    assert process.poll() is None, "an unrelated process was killed"
    process.kill()
    process.wait()


def test_A4_the_agent_is_killed(scene, bystander):
    """Acceptance 8: eight workers, each with one escapee of every kind."""
    script = "\n".join([*ESCAPES.values(), 'exec sleep "$SLEEP"'])
    run = scene.start("-n", "8", "--", "sh", "-c", script)
    scene.bell.wait(8 * len(ESCAPES))
    run.enters("HEALTHY")
    found = scene.survivors()
    watch = Watch(found)
    assert len(found) >= 8 * (len(ESCAPES) + 1) + 2  # the agent and its guardian
    run.signal("SIGKILL")
    watch.ended()
    assert not scene.survivors()


def test_the_agent_is_killed_while_it_starts_workers(scene, hold):
    words = [*hold("STARTING", "start_workers"), "-n", "4", "--", "sleep", scene.env["SLEEP"]]
    run = scene.start(*words)
    scene.bell.wait()
    watch = Watch(scene.survivors())
    run.signal("SIGKILL")
    watch.ended()
    assert not scene.survivors()


def test_the_agent_is_killed_while_it_stops_workers(scene):
    script = 'trap \'\' TERM; echo >"$BELL"; while :; do sleep "$SLEEP"; done'
    run = scene.start("-n", "2", "stop.grace=null", "--", "sh", "-c", script)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    run.signal("SIGTERM")
    run.enters("STOPPING")
    watch = Watch(scene.survivors())
    run.signal("SIGKILL")
    watch.ended()
    assert not scene.survivors()


@pytest.mark.parametrize("how", [*ESCAPES, *UNTRACEABLE])
@pytest.mark.parametrize("end", ["success", "failure", "SIGTERM", "SIGINT"])
def test_escapees(scene, bystander, how, end):
    """Whatever a worker leaves behind is gone when the agent is."""
    code = {"success": "exit 0", "failure": "exit 3"}.get(end, 'exec sleep "$SLEEP"')
    escape = (ESCAPES | UNTRACEABLE)[how]
    script = f'{escape}\nread x <"$GATE"; {code}'
    # Only the deaf need the grace; one that forks may lose a signal that comes at that moment.
    grace = "0.2" if how in ("deaf", "one that forks again") else "10m"
    run = scene.start(f"stop.grace={grace}", "--", "sh", "-c", script)
    scene.bell.wait()
    run.enters("HEALTHY")
    ended = time.monotonic() + 20
    while len(scene.survivors()) < 4:  # agent, guardian, worker, escapee
        assert time.monotonic() < ended
        select.select([], [], [], 0.01)  # in the middle of an exec a process shows no mark
    if end.startswith("SIG"):
        run.signal(end)
    else:
        scene.gate.open()
    assert run.wait() == {"success": 0, "failure": 3, "SIGTERM": 143, "SIGINT": 130}[end]
    assert not scene.survivors()


def test_A3_nothing_of_an_attempt_lives_when_the_next_begins(scene):
    """Attempt 1 looks for the escapees of attempt 0 and finds none."""
    script = (
        'if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then '
        'sh say & (setsid sh say &); read x <"$GATE"; exit 1; '
        'else echo next >>"$BELL"; read x <"$GATE"; fi'
    )
    run = scene.start("spec.max_restarts=1", "--", "sh", "-c", script)
    escaped = [int(line) for line in scene.bell.wait(2)]
    assert all(map(is_alive, escaped))
    scene.gate.open()
    assert scene.bell.wait() == ["next"]
    assert not any(map(is_alive, escaped))
    scene.gate.open()
    assert run.wait() == 0


def test_A1_one_death_ends_all(scene):
    script = 'if [ $RANK = 1 ]; then read x <"$GATE"; exit 3; fi; exec sleep "$SLEEP"'
    run = scene.start("-n", "2", "--", "sh", "-c", script)
    run.enters("HEALTHY")
    scene.gate.open()
    assert run.wait() == 3
    assert not scene.survivors()


def test_A2_a_worker_behind_a_shell(scene):
    shell = f'sh -c \'{sys.executable} -c "import time; time.sleep(600)" & echo >>"$BELL"; wait\''
    script = f'if [ $RANK = 1 ]; then read x <"$GATE"; exit 3; fi; exec {shell}'
    run = scene.start("-n", "2", "--", "sh", "-c", script)
    scene.bell.wait()
    scene.gate.open()
    assert run.wait() == 3
    assert not scene.survivors()


def test_A2_the_same_by_control_c_on_a_terminal(scene):
    """The terminal sends SIGINT to its foreground group: the agent alone, not the workers."""
    script = f"{sys.executable} -c 'import time; time.sleep(600)' & echo >>\"$BELL\"; wait"
    command = [sys.executable, "-m", "elastic_fsm", "run", "-n", "2", "--", "sh", "-c", script]
    command[4:4] = ["stop.grace=10m"]
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(scene.folder)
        os.execve(sys.executable, command, scene.env)
    screen = Reader(master)
    scene.bell.wait(2)
    screen.wait_for(r"-> HEALTHY \[")
    os.write(master, b"\x03")
    Watch([pid]).ended()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert b"Traceback" not in screen.join()
    assert not scene.survivors()


def test_A8_the_agent_ends_last_and_leaves_no_zombies(scene):
    """All that it started has been reaped before it ends: pids are gone, not only dead."""
    script = 'sh say & (setsid sh say &); echo $$ >>"$BELL"; wait'
    run = scene.start("-n", "4", "--", "sh", "-c", script)
    pids = [int(line) for line in scene.bell.wait(12)]
    run.enters("HEALTHY")
    run.signal("SIGTERM")
    assert run.wait() == 143
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_a_program_of_the_users_own_keeps_its_children(scene):
    """In a user's program the agent takes down what its workers left, and nothing else."""
    scene.write(
        "program.py",
        "import os, subprocess, sys\n"
        "import elastic_fsm\n"
        "if __name__ == '__main__':\n"
        "    mine = subprocess.Popen(['sleep', os.environ['SLEEP']], start_new_session=True)\n"
        "    gone = subprocess.Popen(['true'])\n"
        "    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)\n"
        '    script = \'(setsid sleep "$SLEEP" &); env -i sleep "$SLEEP" & exit 3\'\n'
        "    spec = {'entrypoint': 'sh', 'args': ['-c', script]}\n"
        "    result = elastic_fsm.run({'spec': spec})\n"
        "    assert result.exit_code == 3, result\n"
        "    assert result.failures[0].exitcode == 3\n"
        "    assert mine.poll() is None\n"
        "    assert gone.wait() == 0\n"
        "    mine.kill()\n"
        "    mine.wait()\n"
        "    children = open(f'/proc/self/task/{os.getpid()}/children').read()\n"
        "    assert children == '', children\n",
    )
    run = scene.run("program.py", argv=[sys.executable])
    assert run.code == 0, run.err
    assert not scene.survivors()


WAIT = 'echo $$ >"$BELL"; read x <"$GATE"'


def test_orphans_that_end_by_themselves_do_not_pile_up(scene):
    """The agent is their parent now: nobody else would reap them, for weeks."""
    run = scene.start("--", "sh", "-c", "for i in 1 2 3 4 5; do (sleep 0 &); done; " + WAIT)
    scene.bell.wait()
    ended = time.monotonic() + 20
    while zombies := zombies_below(run.pid):
        assert time.monotonic() < ended, zombies
        select.select([], [], [], 0.05)  # nothing tells when a zombie is gone
    scene.gate.open()
    assert run.wait() == 0


PROGRAM = """
import os, elastic_fsm
script = "for i in 1 2 3 4 5; do (sleep 0 &); done; " + os.environ["THEN"]
elastic_fsm.run({"spec": {"entrypoint": "sh", "args": ["-c", script]}})
"""


def zombies_below(pid):
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):  # reaped at this moment
            found += [child] if child.status() == "zombie" else []
    return found


def test_nor_in_a_program_of_the_users_own(scene):
    scene.write("program.py", PROGRAM)
    run = scene.start("program.py", argv=[sys.executable], env={"THEN": WAIT})
    scene.bell.wait()
    ended = time.monotonic() + 20
    while zombies := zombies_below(run.pid):
        assert time.monotonic() < ended, zombies
        select.select([], [], [], 0.05)  # nothing tells when a zombie is gone
    scene.gate.open()
    assert run.wait() == 0


def test_where_proc_is_not_mounted(scene):
    """As in some containers: it is said, once, and the run goes on."""
    hide = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']
    if subprocess.run([*hide, "true"], capture_output=True).returncode:
        pytest.skip("/proc cannot be hidden here")
    argv = [*hide, sys.executable, "-m", "elastic_fsm", "run"]
    run = scene.run("-n", "2", "--", "sh", "-c", "sleep 600 & exit 3", argv=argv)
    assert run.code == 3
    assert run.err.count("/proc is not mounted") == 1
    assert "Traceback" not in run.err
    assert not scene.survivors()


def test_a_guardian_that_is_killed_is_replaced(scene):
    """Else a kill -9 of the agent would leave its workers behind, and nobody would know."""
    run = scene.start("-n", "2", "--", "sh", "-c", 'echo $$ >"$BELL"; exec sleep "$SLEEP"')
    workers = [int(pid) for pid in scene.bell.wait(2)]
    run.enters("HEALTHY")
    (guardian,) = (c for c in psutil.Process(run.pid).children() if c.pid not in workers)
    watch = Watch([guardian.pid])
    guardian.kill()
    watch.ended()
    ended = time.monotonic() + 20
    while not (new := guardians(run.pid, {guardian.pid, *workers})):
        assert time.monotonic() < ended
        select.select([], [], [], 0.05)  # nothing tells when another process has been started
    watch = Watch([*workers, *new])
    scene.kill([run.pid], "SIGKILL")
    watch.ended()


def guardians(agent: int, others: set[int]) -> list[int]:
    return [c.pid for c in psutil.Process(agent).children() if c.pid not in others]

"""The launcher alone: a loop, real processes, and exactly one answer to everything asked."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest
from process_harness import WAIT, Watch, is_alive

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.launchers import by_psutil, guardian, guarding, procfs, stopping, strays
from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
from elastic_fsm.launchers.guardian import Guardian
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.launchers.starters import CommandStarter
from elastic_fsm.loop import Loop
from elastic_fsm.sources.exits import Exits

pytestmark = pytest.mark.slow

READY = 'echo $$ >"$BELL"; '
SLEEPS = READY + 'exec sleep "$SLEEP"'
DEAF = READY + 'trap \'\' TERM; echo deaf >"$BELL"; while :; do sleep "$SLEEP"; done'
AT_GATE = READY + 'read x <"$GATE"; '


class Stage:
    """A launcher, and the events that it has posted."""

    def __init__(self, scene, *, pidfd: bool) -> None:
        self.scene = scene
        self.loop = Loop(SystemClock())
        self.exits = Exits(self.loop, pidfd=pidfd)
        self.launcher = None

    def set_up(self, **options) -> SubprocessLauncher:
        self.launcher = SubprocessLauncher(self.loop, self.exits, **options)
        return self.launcher

    def start(self, *scripts: str, attempt: int = 0, **fields) -> list[int]:
        """Start shells with these scripts; the pids of those that started."""
        workers = [
            self.worker(rank, "sh", "-c", script, **fields) for rank, script in enumerate(scripts)
        ]
        self.launcher.start(LaunchPlan(attempt, tuple(workers)))
        return self.take("workers_started").data["pids"]

    def worker(self, rank: int, *argv: str, **fields) -> WorkerPlan:
        fields.setdefault("cwd", str(self.scene.folder))
        return WorkerPlan(rank, rank, argv, self.scene.env, **fields)

    def take(self, name: str) -> Event:
        """The next event, which must be of this name."""
        event = self.next()
        assert event.name == name, event
        return event

    def next(self) -> Event:
        overdue = self.loop.call_later(WAIT, lambda: self.loop.post(Event("overdue")))
        event = self.loop.next_event()
        overdue.cancel()
        assert event.name != "overdue"
        return event

    def until(self, name: str) -> list[Event]:
        """All events up to the first of a name."""
        events = [self.next()]
        while events[-1].name != name:
            events.append(self.next())
        return events

    def silence(self) -> None:
        """Nothing more is said: what is asked last comes first."""
        self.loop.post(Event("asked"))
        self.take("asked")

    def close(self) -> None:
        if self.launcher is not None:
            assert self.launcher.close() == []
            assert self.launcher.close() == []
        self.exits.close()
        self.loop.close()


@pytest.fixture(params=[True, False], ids=["pidfd", "threads"])
def stage(request, scene):
    stage = Stage(scene, pidfd=request.param)
    stage.pidfd = request.param
    yield stage
    stage.close()
    assert not scene.survivors()


@pytest.fixture
def launcher(stage):
    return stage.set_up()


def ends(events) -> dict[int, tuple[int, bool]]:
    """Exit code, and whether the agent did it, by local rank."""
    exits = [e.data for e in events if e.name == "worker_exited"]
    assert len({e["local_rank"] for e in exits}) == len(exits), "an end was told twice"
    return {e["local_rank"]: (e["exit_code"], e["stopped_by_agent"]) for e in exits}


def test_ends_are_told_once_with_their_attempt(stage, launcher):
    pids = stage.start("exit 0", "exit 3", "kill -KILL $$", attempt=7)
    events = [stage.take("worker_exited") for _ in range(3)]
    assert {e.attempt for e in events} == {7}
    assert {e.data["local_rank"]: e.data["pid"] for e in events} == dict(enumerate(pids))
    assert ends(events) == {0: (0, False), 1: (3, False), 2: (-9, False)}
    stage.silence()


def test_ends_are_told_in_their_order(stage, launcher, scene):
    pids = dict(enumerate(stage.start(*[AT_GATE] * 4)))
    scene.bell.wait(4)
    for rank in (2, 0, 3, 1):
        watch = Watch([pids[rank]])
        os.kill(pids[rank], signal.SIGTERM)
        watch.ended()
    events = [stage.take("worker_exited") for _ in range(4)]
    told = [e.data["local_rank"] for e in events]
    assert (told if stage.pidfd else sorted(told)) == (
        [2, 0, 3, 1] if stage.pidfd else [0, 1, 2, 3]
    )


def test_one_answer_to_a_stop(stage, launcher, scene):
    pids = stage.start(*[SLEEPS] * 3)
    scene.bell.wait(3)
    launcher.stop(0, "SIGINT", 60)
    events = stage.until("workers_stopped")
    assert ends(events) == dict.fromkeys(range(3), (-2, True))
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids), "not reaped"
    stage.silence()


def test_a_stop_when_nobody_is_alive(stage, launcher):
    launcher.stop(3, "SIGTERM", 60)
    assert stage.take("workers_stopped").attempt == 3
    stage.start("exit 0", attempt=4)
    stage.take("worker_exited")
    launcher.stop(4, "SIGTERM", None)
    assert stage.take("workers_stopped").attempt == 4
    stage.silence()


def test_a_stop_that_never_began_is_joined_by_none(stage, launcher, scene):
    """A rule may have any text for the name of a signal; who asks next must be answered."""
    stage.start(SLEEPS)
    scene.bell.wait()
    with pytest.raises(KeyError, match="NOPE"):
        launcher.stop(0, "NOPE", 60)
    launcher.stop(0, "SIGTERM", 60)
    assert ends(stage.until("workers_stopped")) == {0: (-15, True)}


def test_a_second_stop_joins_the_first(stage, launcher, scene):
    """One signal, one deadline, one answer."""
    trap = 'trap "echo asked >$BELL" TERM INT; '
    stage.start(trap + READY + 'while :; do read x <"$GATE" && exit 5; done')
    scene.bell.wait()
    launcher.stop(0, "SIGTERM", None)
    assert scene.bell.wait() == ["asked"]
    launcher.stop(0, "SIGINT", 0)
    scene.gate.open()
    assert ends(stage.until("workers_stopped")) == {0: (5, True)}
    stage.silence()
    scene.bell.path.write_text("last\n")
    assert scene.bell.wait() == ["last"], "the second stop sent a signal too"


def test_the_grace_ends_with_sigkill(stage, launcher, scene):
    stage.start(DEAF, SLEEPS)
    scene.bell.wait(3)
    launcher.stop(0, "SIGTERM", 0.05)
    assert ends(stage.until("workers_stopped")) == {0: (-9, True), 1: (-15, True)}
    stage.silence()


def test_kill_cuts_the_grace_short(stage, launcher, scene):
    launcher.kill()  # nothing to cut short
    stage.start(DEAF)
    scene.bell.wait(2)
    launcher.kill()
    stage.silence()
    launcher.stop(0, "SIGTERM", None)
    launcher.kill()
    launcher.kill()
    assert ends(stage.until("workers_stopped")) == {0: (-9, True)}
    stage.silence()


def test_a_frozen_worker_hears_the_signal(stage, launcher, scene):
    (pid,) = stage.start(f'trap "exit 6" TERM; {READY} while :; do read x <"$GATE"; done')
    scene.bell.wait()
    os.kill(pid, signal.SIGSTOP)
    launcher.stop(0, "SIGTERM", None)
    assert ends(stage.until("workers_stopped")) == {0: (6, True)}


def test_one_that_ended_just_before_the_stop_was_not_stopped_by_it(stage, launcher, scene):
    """The kernel knows of its end already; the loop has not been told."""
    first, _ = stage.start(SLEEPS, SLEEPS)
    scene.bell.wait(2)
    watch = Watch([first])
    os.kill(first, signal.SIGTERM)
    watch.ended()
    launcher.stop(0, "SIGTERM", 60)
    assert ends(stage.until("workers_stopped")) == {0: (-15, False), 1: (-15, True)}


def test_workers_that_cannot_be_killed(stage, scene, monkeypatch):
    """Such as hang in the kernel: the answer names them, and comes once."""
    launcher = stage.set_up(kill_timeout=0.05)
    stubborn, _ = stage.start(DEAF, SLEEPS)
    scene.bell.wait(3)
    really = stopping.signal_group
    with monkeypatch.context() as patched:
        patched.setattr(
            stopping, "signal_group", lambda pid, n: really(pid, n) if n != signal.SIGKILL else None
        )
        launcher.stop(0, "SIGTERM", 0)
        *events, answer = stage.until("workers_stuck")
        assert answer.data["pids"] == [stubborn]
        assert ends(events) == {1: (-15, True)}
        stage.silence()


def test_close_names_those_that_it_could_not_end(stage, scene, monkeypatch):
    launcher = stage.set_up(kill_timeout=0.05)
    (stubborn,) = stage.start(DEAF)
    scene.bell.wait(2)
    monkeypatch.setattr(stopping, "signal_group", lambda pid, number: None)
    child = launcher._processes[stubborn].child
    assert launcher.close() == [stubborn]
    watch = Watch(pid for pid in scene.survivors() if os.getpgid(pid) == stubborn)
    os.killpg(stubborn, signal.SIGKILL)
    watch.ended()
    child.close()


@pytest.mark.parametrize(
    ("argv", "fields", "code", "says"),
    [
        (("./nosuch",), {}, 127, "No such file or directory: ./nosuch"),
        (("./plain",), {}, 126, "Permission denied: ./plain"),
        (("./empty/x",), {}, 127, "./empty/x"),
        (("sh",), {"cwd": "/nosuch"}, 127, "/nosuch"),
    ],
)
def test_a_start_that_fails(stage, launcher, scene, argv, fields, code, says):
    """It counts as a worker that ended at once; those after it are not started."""
    scene.write("plain", "")
    good = stage.worker(0, "sh", "-c", SLEEPS)
    never = stage.worker(2, "sh", "-c", 'echo never >"$BELL"')
    launcher.start(LaunchPlan(0, (good, stage.worker(1, *argv, **fields), never)))
    failed = stage.take("worker_exited").data
    assert (failed["local_rank"], failed["pid"], failed["exit_code"]) == (1, None, code)
    assert failed["reason"].startswith("cannot be started: ")
    assert says in failed["reason"]
    scene.bell.wait()
    launcher.stop(0, "SIGTERM", 60)
    assert ends(stage.until("workers_stopped")) == {0: (-15, True)}
    stage.silence()


STRAYS = {
    "in the group": 'sh -c "$SAY" &',
    "setsid": 'setsid sh -c "$SAY" &',
    "double fork": '(setsid sh -c "$SAY" &)',
    "forks again": '(setsid sh -c "trap \'setsid sh -c \\"\\$SAY\\" & exit\' TERM; $SAY" &)',
}


@pytest.mark.parametrize("how", STRAYS)
@pytest.mark.parametrize("sole_owner", [True, False])
def test_strays(stage, scene, how, sole_owner):
    """What the workers left gets the same signal, and the stop waits for it."""
    launcher = stage.set_up(sole_owner=sole_owner)
    scene.env["SAY"] = READY + 'sleep "$SLEEP" & wait'
    stage.start(STRAYS[how] + '\nread x <"$GATE"')
    (stray,) = map(int, scene.bell.wait())
    scene.gate.open()
    stage.take("worker_exited")
    assert is_alive(stray)
    launcher.stop(0, "SIGTERM", None)
    stage.take("workers_stopped")
    assert not scene.survivors().keys() - {os.getpid(), launcher._guardian.pid}
    stage.silence()


FORGETS = """
import os, signal, sys
def bell(word):
    with open(os.environ["BELL"], "w") as bell:
        bell.write(word + "\\n")
def forget(*_):
    bell("lost")
    os.execvp("sleep", ["sleep", os.environ["SLEEP"]])
signal.signal(signal.SIGTERM, forget)
bell(str(os.getpid()))
signal.pause()
"""
LISTENS = """
import os, signal
bell = os.open(os.environ["BELL"], os.O_WRONLY)
signal.signal(signal.SIGTERM, lambda *_: os.write(bell, b"heard\\n"))
os.write(bell, b"%d\\n" % os.getpid())
while True:
    signal.pause()
"""


def test_a_stray_that_lost_the_signal_to_its_exec_gets_it_again(stage, launcher, scene):
    """As a process between fork and exec does: a handler took it that is gone now."""
    scene.write("forgets.py", FORGETS)
    stage.start(f'(setsid {sys.executable} forgets.py &)\nread x <"$GATE"')
    (stray,) = map(int, scene.bell.wait())
    scene.gate.open()
    stage.take("worker_exited")
    launcher.stop(0, "SIGTERM", None)
    assert scene.bell.wait() == ["lost"]
    stage.take("workers_stopped")
    assert not is_alive(stray)


def test_a_stray_that_listens_is_not_told_twice(stage, launcher, scene):
    """A second signal may mean to it that it must hurry."""
    scene.write("listens.py", LISTENS)
    stage.start(f'(setsid {sys.executable} listens.py &)\nread x <"$GATE"')
    (stray,) = map(int, scene.bell.wait())
    scene.gate.open()
    stage.take("worker_exited")
    launcher.stop(0, "SIGTERM", None)
    assert scene.bell.wait() == ["heard"]
    stage.loop.run_until(lambda: False, 4 * stopping._FIRST_REMINDER)
    launcher.kill()
    stage.take("workers_stopped")
    assert not is_alive(stray)
    scene.bell.path.write_text("last\n")
    assert scene.bell.wait() == ["last"]


ENDS_WITH_ITS_CHILD = """
import os, signal, subprocess
child = subprocess.Popen(["sleep", os.environ["SLEEP"]], start_new_session=True)
def end(*_):
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
with open(os.environ["BELL"], "w") as bell:
    bell.write(f"{child.pid}\\n")
signal.pause()
"""


@pytest.mark.parametrize("sole_owner", [True, False])
def test_a_stray_that_has_ended_before_it_is_ours_is_reaped(stage, scene, sole_owner):
    """In a session of its own, and what has ended shows no mark."""
    launcher = stage.set_up(sole_owner=sole_owner)
    scene.write("ends.py", ENDS_WITH_ITS_CHILD)
    stage.start(f"exec {sys.executable} ends.py")
    (stray,) = map(int, scene.bell.wait())
    launcher.stop(0, "SIGTERM", None)
    stage.until("workers_stopped")
    assert not os.path.exists(f"/proc/{stray}")


def test_an_exit_code_that_somebody_else_took_is_explained(stage, launcher, scene):
    (pid,) = stage.start(AT_GATE + "exit 3")
    scene.bell.wait()
    scene.gate.open()
    assert os.waitpid(pid, 0)[0] == pid
    told = stage.take("worker_exited").data
    assert (told["exit_code"], told["stopped_by_agent"]) == (255, False)
    assert told["reason"].startswith("its real exit code is lost")


def test_an_exit_code_of_255_needs_no_explanation(stage, launcher):
    stage.start("exit 255")
    told = stage.take("worker_exited").data
    assert (told["exit_code"], told["reason"]) == (255, "")


def test_where_nothing_tells_the_workers_groups_are_stopped(stage, launcher, scene, monkeypatch):
    """As on a Linux whose ``/proc`` is hidden: psutil has nothing else to read."""
    monkeypatch.setattr(procfs, "PROC", "/nothing")
    monkeypatch.setattr(psutil, "PROCFS_PATH", "/nothing")
    assert not procfs.sees_processes()
    assert not procfs.all_stats()
    assert not procfs.has_mark(os.getpid(), "")
    scene.env["SAY"] = SLEEPS
    stage.start('sh -c "$SAY" & ' + SLEEPS)
    pids = list(map(int, scene.bell.wait(2)))
    launcher.stop(0, "SIGTERM", None)
    assert ends(stage.until("workers_stopped")) == {0: (-15, True)}
    Watch(pids).ended()


@pytest.fixture
def without_proc(monkeypatch):
    """No ``/proc`` and no subreaper, as on macOS; psutil sees what there is."""
    monkeypatch.setattr(procfs, "PROC", "/nothing")
    monkeypatch.setattr(strays._Subreaper, "enter", lambda: False)
    assert not procfs.is_mounted()
    assert procfs.sees_processes()


ORPHAN = '(setsid sh -c "$SAY" &)\nread x <"$GATE"'


def test_without_proc_a_stray_is_found(without_proc, stage, launcher, scene):
    mine = subprocess.Popen(["sleep", "600"], start_new_session=True)
    scene.env["SAY"] = SLEEPS
    stage.start(ORPHAN)
    (stray,) = map(int, scene.bell.wait())
    scene.gate.open()
    stage.take("worker_exited")
    launcher.stop(0, "SIGTERM", None)
    stage.take("workers_stopped")
    assert not is_alive(stray)
    launcher.close()
    assert mine.poll() is None
    mine.kill()
    mine.wait()


HAS_A_CHILD = """
trap 'echo heard >"$BELL"' TERM
setsid "$PYTHON" listens.py &
while :; do wait; done
"""


def test_without_proc_a_stray_is_told_once_and_its_children_are_not(
    without_proc, stage, launcher, scene
):
    """As below a subreaper: its children are its own care, until it leaves them behind."""
    scene.write("listens.py", LISTENS)
    scene.env |= {"SAY": HAS_A_CHILD, "PYTHON": sys.executable}
    stage.start(ORPHAN)
    (child,) = map(int, scene.bell.wait())
    launcher.stop(0, "SIGTERM", 1.0)  # for a shell on a busy machine
    stage.until("workers_stopped")
    assert not is_alive(child)
    scene.bell.path.write_text("last\n")
    assert scene.bell.wait(2) == ["heard", "last"]


LEAVES_ONE_WITHOUT_MARK = """
import os, subprocess
child = subprocess.Popen(["sleep", os.environ["SLEEP"]], env={}, start_new_session=True)
with open(os.environ["BELL"], "w") as bell:
    bell.write(f"{child.pid}\\n")
child.wait()
"""


def test_without_proc_a_stray_is_known_that_was_seen_below_a_worker(without_proc, stage, scene):
    launcher = stage.set_up(sole_owner=True)
    scene.write("leaves.py", LEAVES_ONE_WITHOUT_MARK)
    stage.start(f"exec {sys.executable} leaves.py")
    (stray,) = map(int, scene.bell.wait())
    launcher.stop(0, "SIGTERM", None)
    stage.until("workers_stopped")
    assert not is_alive(stray)


def test_without_proc_the_same_is_told(without_proc, monkeypatch):
    gone = subprocess.Popen(["true"], start_new_session=True)
    here = subprocess.Popen(["sleep", "600"], env={"A": "some mark"})
    Watch([gone.pid]).ended()
    pids = (os.getpid(), gone.pid, here.pid)
    told = [procfs.read_stat(pid) for pid in pids]
    assert {gone.pid, here.pid} <= procfs.descendants_of([os.getppid()])
    assert {gone.pid, here.pid} <= set(procfs.children_of(os.getpid()))
    marks = ("me mar", "A=some mark", "no mark")
    marked = [procfs.has_mark(here.pid, mark) for mark in marks]
    monkeypatch.undo()
    assert [procfs.has_mark(here.pid, mark) for mark in marks] == marked == [True, True, False]
    for process, stat in zip(map(procfs.read_stat, pids), told, strict=True):
        for name in ("pid", "parent", "group", "session", "ended"):
            assert getattr(stat, name) == getattr(process, name)
    here.kill()
    here.wait()
    gone.wait()


def test_of_nobody_nothing_is_told():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert by_psutil.read_stat(gone.pid) is None
    assert not by_psutil.has_mark(gone.pid, "")


def marks_show_late(monkeypatch, module):
    """As of a process in the middle of an exec: at the first look there is no environment."""
    looks, really = [], module.has_mark

    def has_mark(pid, mark):
        looks.append(pid)
        return looks.count(pid) > 1 and really(pid, mark)

    monkeypatch.setattr(module, "has_mark", has_mark)


@contextmanager
def marked_child():
    """A child that carries the mark, and is past its exec."""
    argv = ["sh", "-c", "echo up; read x"]
    with subprocess.Popen(
        argv, env={"A": "a mark of ours"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"up\n"
        yield child


def test_without_proc_only_nothing_twice_is_nothing(without_proc, monkeypatch):
    with marked_child() as child:
        marks_show_late(monkeypatch, procfs)
        assert strays.Strays("mark of ours", sole_owner=False).find([], []) == [child.pid]


def test_only_nothing_twice_is_nothing_among_children(monkeypatch):
    """The same of an orphan that has become our child."""
    found = strays.Strays("mark of ours", sole_owner=False)
    with marked_child() as child:
        found.adopt()
        marks_show_late(monkeypatch, strays)
        assert found.find([], []) == [child.pid]
        found.release()


def test_who_is_led_by_a_stray_is_one_without_a_mark(monkeypatch):
    """The stray ends while its child is in an exec, which may last for longer than two looks."""
    found = strays.Strays("mark of ours", sole_owner=False)
    argv = ["sh", "-c", "sleep 600 & echo $!; wait"]
    environment = {"A": "a mark of ours", "PATH": os.environ["PATH"]}
    reading, writing = os.pipe()
    leader = subprocess.Popen(argv, env=environment, start_new_session=True, stdout=writing)
    os.close(writing)
    child = int(os.read(reading, 20))
    os.close(reading)
    found.adopt()
    assert found.find([], []) == [leader.pid]
    leader.kill()
    leader.wait()
    monkeypatch.setattr(strays, "has_mark", lambda pid, mark: False)
    left = found.find([], [])
    os.kill(child, signal.SIGKILL)
    found.release()
    assert left == [child]


def test_without_proc_a_guardian_asks_psutil(without_proc, monkeypatch):
    """From an interpreter that has no site-packages: of two, one is known by pid, one by mark."""
    hide = "from elastic_fsm.launchers import procfs; procfs.PROC = '/nothing'; from"
    monkeypatch.setattr(guardian, "_CODE", guardian._CODE.replace("from", hide, 1))
    worker = subprocess.Popen(["sleep", "600"], start_new_session=True)
    marked = subprocess.Popen(["sleep", "600"], env={"A": "a mark of ours"}, start_new_session=True)
    guard = Guardian("mark of ours")
    guard.add(worker.pid)
    guard._process.stdin.close()
    for process in (worker, marked):
        assert process.wait(WAIT) == -signal.SIGKILL
    guard._process.wait()


def test_a_kernel_without_lists_of_children(stage, scene, monkeypatch):
    launcher = stage.set_up(sole_owner=False)
    scene.env["SAY"] = SLEEPS
    stage.start('(setsid sh -c "$SAY" &)\nread x <"$GATE"')
    (stray,) = map(int, scene.bell.wait())
    monkeypatch.setattr(procfs, "_CHILDREN", "no such file")
    scene.gate.open()
    stage.take("worker_exited")
    launcher.stop(0, "SIGTERM", None)
    stage.take("workers_stopped")
    assert not is_alive(stray)


def test_a_deaf_stray_is_killed_at_the_end_of_the_grace(stage, launcher, scene):
    scene.env["DEAF"] = DEAF
    stage.start('(setsid sh -c "$DEAF" &)\nread x <"$GATE"')
    (stray, _) = scene.bell.wait(2)
    launcher.stop(0, "SIGTERM", 0.1)
    stage.until("workers_stopped")
    assert not is_alive(int(stray))


def test_a_program_keeps_children_of_its_own(stage, launcher, scene):
    mine = subprocess.Popen(["sleep", "600"], start_new_session=True)
    gone = subprocess.Popen(["sh", "-c", "exit 4"], start_new_session=True)
    Watch([gone.pid]).ended()
    stage.start(SLEEPS)
    scene.bell.wait()
    launcher.stop(0, "SIGTERM", 60)
    stage.until("workers_stopped")
    launcher.close()
    assert mine.poll() is None
    assert gone.wait() == 4
    mine.kill()
    mine.wait()


def test_the_next_attempt(stage, launcher, scene):
    """Everything of the last one is forgotten, and nothing of it is told again."""
    for attempt in range(3):
        stage.start(SLEEPS, SLEEPS, attempt=attempt)
        scene.bell.wait(2)
        launcher.stop(attempt, "SIGTERM", 60)
        events = stage.until("workers_stopped")
        assert {e.attempt for e in events} == {attempt}
        assert len(ends(events)) == 2


def test_workers_are_not_started_while_others_run(stage, launcher, scene):
    """Their ends would be told of the new ones; so a machine that forgets to stop them hears it."""
    stage.start(SLEEPS, "exit 3")
    scene.bell.wait()
    assert stage.take("worker_exited").data["local_rank"] == 1
    with pytest.raises(RuntimeError, match="while others still run"):
        launcher.start(LaunchPlan(1, (stage.worker(0, "true"),)))
    launcher.stop(0, "SIGTERM", 60)
    assert ends(stage.until("workers_stopped")) == {0: (-15, True)}


def test_close_ends_everything_at_once(stage, launcher, scene):
    before = _is_subreaper()
    stage.start(DEAF, DEAF + " &")
    scene.bell.wait(4)
    helper = launcher._guardian.pid
    launcher.stop(0, "SIGTERM", None)
    assert launcher.close() == []
    assert before
    assert not _is_subreaper()
    assert not os.path.exists(f"/proc/{helper}")


class _NoMoreProcesses(CommandStarter):
    def open(self, marking) -> None:
        raise BlockingIOError("no more processes")


def test_a_launcher_that_cannot_be_made_leaves_nothing_behind(stage):
    children = procfs.children_of(os.getpid())
    with pytest.raises(BlockingIOError):
        stage.set_up(starter=_NoMoreProcesses())
    assert not _is_subreaper()
    assert procfs.children_of(os.getpid()) == children


def _is_subreaper() -> bool:
    flag = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0)
    return bool(flag.value)


def test_no_descriptor_is_left_open(stage, launcher, scene):
    opened = []
    for attempt in range(4):
        path = scene.folder / "log"
        stage.start("exit 0", attempt=attempt, stdout=path, stderr=path)
        stage.take("worker_exited")
        launcher.stop(attempt, "SIGTERM", 60)
        stage.take("workers_stopped")
        opened.append(len(os.listdir("/proc/self/fd")))
    assert opened == [opened[0]] * 4


def test_a_guardian_that_somebody_has_stopped_keeps_nobody(stage, launcher):
    helper = launcher._guardian.pid
    os.kill(helper, signal.SIGSTOP)
    assert launcher.close() == []
    assert not os.path.exists(f"/proc/{helper}")


def test_a_guardian_gives_up_what_it_cannot_kill(monkeypatch, scene):
    """It does not look for ever, for instance for a worker that became another user."""
    other = subprocess.Popen(["sleep", "600"], env=scene.env)
    read, write = os.pipe()
    os.close(write)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    monkeypatch.setattr(guarding._signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(guarding, "_ROUNDS", 3)
    guarding.guard(scene.mark, os.getpid(), read)
    monkeypatch.undo()
    os.close(read)
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_guardian_looks_again_where_it_found_nothing(monkeypatch, scene):
    other = subprocess.Popen(["sleep", "600"], env=scene.env)
    read, write = os.pipe()
    os.close(write)
    monkeypatch.setattr(guarding._signal, "signal", lambda number, handler: None)
    marks_show_late(monkeypatch, procfs)
    guarding.guard(scene.mark, os.getpid(), read)
    os.close(read)
    assert other.wait(WAIT) == -signal.SIGKILL


def test_a_guardian_that_cannot_be_started_says_what_it_is(tmp_path, monkeypatch):
    """Whoever may not run our own interpreter is not told its name alone."""
    (tmp_path / "python").write_text("")  # not executable, for root neither
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(PermissionError) as caught:
        Guardian("no such mark")
    for words in ("the guardian, which ends the workers", "executable for this user", "python"):
        assert words in str(caught.value)


@pytest.fixture
def guarded():
    """A guardian, what it says, and what kills it: its agent hears of that at once."""
    watched, said = [], []
    exits = SimpleNamespace(watch=lambda *args: watched.append(args), forget=lambda pid: None)
    guard = Guardian("no such mark", exits, said.append)

    def kill():
        guard._process.kill()
        pid, died = watched[-1]
        died(pid, -signal.SIGKILL)

    yield SimpleNamespace(guard=guard, said=said, kill=kill)
    guard.dismiss()


def test_where_no_guardian_can_be_had_now_the_next_start_asks_again(guarded, monkeypatch):
    def no_more(*args, **kwargs):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", no_more)
        guarded.kill()
        guarded.guard.add(os.getpid())
    (line,) = guarded.said
    assert line.startswith("the guardian, which ends the workers when the agent dies, cannot be")
    assert line.endswith("unavailable; it is tried again when workers are started")
    guarded.guard.add(os.getpid())
    assert is_alive(guarded.guard.pid)


def test_a_guardian_that_is_always_killed_is_missed_aloud(guarded):
    for _ in range(3):
        assert guarded.said == []
        guarded.kill()
    (line,) = guarded.said
    assert line.endswith("has died 3 times: this run goes on without one")
    guarded.guard.add(os.getpid())
    assert not is_alive(guarded.guard.pid)


def test_a_guardian_that_was_dismissed_touches_nobody(scene):
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, "X": f"mark-{scene.mark}"})
    guard = Guardian(f"mark-{scene.mark}")
    guard.add(other.pid)
    guard.dismiss()
    assert not is_alive(guard.pid)
    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_guardian_leaves_a_later_process_of_the_same_pid(scene):
    """The pid of a worker that ended long ago may belong to somebody else by now."""
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    guard = Guardian("no such mark")
    guard._tell(f"{other.pid} 1\n")
    watch = Watch([guard.pid])
    guard._process.stdin.close()
    watch.ended()
    guard._process.wait()
    assert other.poll() is None
    other.kill()
    other.wait()

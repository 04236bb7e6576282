"""Workers forked from a process that has imported for them: scripts, modules, and its troubles."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from process_harness import WAIT, Watch, is_alive

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.launchers import forkserver
from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
from elastic_fsm.launchers.choice import check_launcher, make_starter
from elastic_fsm.launchers.forkserver import ForkServerStarter, python_task
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.launchers.streams import Streams
from elastic_fsm.loop import Loop
from elastic_fsm.sources.exits import Exits

pytestmark = pytest.mark.slow


class Stage:
    """A launcher whose workers are forked, its loop, and what it said."""

    def __init__(self, scene, *preload: str, env=None) -> None:
        self.scene = scene
        self.said: list[str] = []
        self.loop = Loop(SystemClock())
        self.exits = Exits(self.loop)
        mine = {"PYTHONUNBUFFERED": "", "PYTHONPATH": str(scene.folder)}
        env = {**scene.env, **mine, **(env or {})}
        self.starter = ForkServerStarter(
            self.loop, self.exits, preload=preload, env=env, say=self.said.append
        )
        self.launcher = SubprocessLauncher(self.loop, self.exits, starter=self.starter)

    def start(self, *words: str, count: int = 1, attempt: int = 0, env=None, function=None) -> None:
        argv = (sys.executable, *words) if words else ()
        self.launcher.start(
            LaunchPlan(
                attempt,
                tuple(
                    WorkerPlan(
                        rank,
                        rank,
                        argv,
                        {**self.scene.env, "RANK": str(rank), **(env or {})},
                        str(self.scene.folder),
                        self.scene.folder / f"out{rank}",
                        self.scene.folder / f"err{rank}",
                        function=function,
                    )
                    for rank in range(count)
                ),
            )
        )

    def next(self) -> Event:
        overdue = self.loop.call_later(WAIT, lambda: self.loop.post(Event("overdue")))
        event = self.loop.next_event()
        overdue.cancel()
        assert event.name != "overdue"
        return event

    def take(self, name: str) -> Event:
        event = self.next()
        assert event.name == name, event
        return event

    def run(self, *words: str, **options) -> list[int]:
        """Start workers that end by themselves; their exit codes."""
        count = options.get("count", 1)
        self.start(*words, **options)
        events = [self.next() for _ in range(count + 1)]
        ends = [event.data for event in events if event.name == "worker_exited"]
        assert len(ends) == count, events
        attempt = options.get("attempt", 0)
        self.launcher.stop(attempt, "SIGTERM", WAIT)
        self.take("workers_stopped")
        return [end["exit_code"] for end in sorted(ends, key=lambda end: end["local_rank"])]

    def out(self, rank: int = 0) -> str:
        return (self.scene.folder / f"out{rank}").read_text()

    def err(self, rank: int = 0) -> str:
        return (self.scene.folder / f"err{rank}").read_text()

    def close(self) -> None:
        assert self.launcher.close() == []
        self.exits.close()
        self.loop.close()


@pytest.fixture
def stage(scene):
    """``stage("module", …)`` makes one that preloads these."""
    made = []

    def make(*preload, **options):
        made.append(Stage(scene, *preload, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


LOOK = """
import json, os, pickle, sys
class Mine: pass
main = sys.modules["__main__"]
json.dump([sys.argv, sys.path, __name__, __file__, __package__, type(__loader__).__name__,
           __spec__ and __spec__.name, __doc__, sorted(globals()), os.getcwd(),
           vars(main) is globals(), type(pickle.loads(pickle.dumps(Mine()))).__module__,
           sys.flags.safe_path], sys.stdout)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["look.py", "a", ""],
        ["inner/look.py"],
        ["link.py"],
        ["-m", "look", "-x"],
        ["-m", "inner.look"],
    ],
)
def test_a_script_sees_what_python_itself_shows_it(stage, scene, words):
    scene.write("look.py", LOOK)
    scene.write("inner/look.py", LOOK)
    scene.write("inner/__init__.py", "")
    (scene.folder / "link.py").symlink_to("inner/look.py")
    env = {**scene.env, "PYTHONPATH": str(scene.folder)}
    plain = subprocess.run(
        [sys.executable, *words], cwd=scene.folder, env=env, capture_output=True, check=True
    )
    forked = stage()
    assert forked.run(*words, env={"PYTHONPATH": str(scene.folder)}) == [0]
    assert json.loads(forked.out()) == json.loads(plain.stdout)


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "sys.exit(3)",
        "sys.exit('the text')",
        "os._exit(5)",
        "def f():\n    raise ValueError('x')\nf()",
        "raise KeyboardInterrupt",
        "os.kill(os.getpid(), 9)",
        "sys.excepthook = lambda *_: print('mine')\n1 / 0",
        "atexit.register(print, 'at exit'); threading.Timer(0, print, ['late']).start()",
        "this is no Python",
        "import nosuch",
        "print('unfinished', end='')",
    ],
)
@pytest.mark.parametrize("word", [["end.py"], ["-m", "end"]], ids=["file", "module"])
def test_a_script_ends_as_with_python_itself(stage, scene, ending, word):
    scene.write("end.py", f"import atexit, os, sys, threading\nprint('here')\n{ending}\n")
    plain = subprocess.run(
        [sys.executable, *word], cwd=scene.folder, env=scene.env, capture_output=True, text=True
    )
    forked = stage()
    assert forked.run(*word) == [plain.returncode]
    assert (forked.out(), forked.err()) == (plain.stdout, plain.stderr)


def test_modules_are_imported_once_for_all_workers_and_attempts(stage, scene):
    scene.write(
        "heavy.py", "import os\nprint('imported')\nopen(os.environ['BELL'], 'w').write('x\\n')\n"
    )
    scene.write("train.py", "import sys\nprint('heavy' in sys.modules)\nimport heavy\n")
    forked = stage("heavy")
    scene.bell.wait()
    for attempt in range(3):
        assert forked.run("train.py", count=2, attempt=attempt) == [0, 0]
    assert forked.out(0) == forked.out(1) == "True\n" * 3
    scene.bell.path.write_text("last\n")
    assert scene.bell.wait() == ["last"]


def test_the_environment_is_the_workers_own(stage, scene):
    scene.write("heavy.py", "import os\nTHREADS = os.environ['OMP_NUM_THREADS']\n")
    scene.write(
        "train.py",
        "import heavy, os, time\n"
        "device = os.environ['CUDA_VISIBLE_DEVICES']\n"
        "print(heavy.THREADS, device, os.environ.get('ZYGOTE'), time.tzname[0])\n",
    )
    forked = stage("heavy", env={"OMP_NUM_THREADS": "3", "ZYGOTE": "only"})
    assert forked.run("train.py", env={"CUDA_VISIBLE_DEVICES": "5", "TZ": "XYZ-1"}) == [0]
    assert forked.out() == "3 5 None XYZ\n"


def test_random_numbers_differ_between_workers(stage, scene):
    scene.write("train.py", "import numpy, random\nprint(numpy.random.rand(), random.random())\n")
    forked = stage("numpy.random", "random")
    assert forked.run("train.py", count=3) == [0, 0, 0]
    numbers = [number for rank in range(3) for number in forked.out(rank).split()]
    assert len(set(numbers)) == 6


def test_a_module_that_cannot_be_imported_is_the_reason_of_a_failed_start(stage, scene):
    scene.write("broken.py", "1 / 0\n")
    scene.write("train.py", "")
    forked = stage("broken")
    forked.start("train.py", count=2)
    end = forked.take("worker_exited").data
    assert (end["local_rank"], end["pid"], end["exit_code"]) == (0, None, 126)
    assert "broken cannot be imported: ZeroDivisionError: division by zero" in end["reason"]
    forked.launcher.stop(0, "SIGTERM", WAIT)
    forked.take("workers_stopped")


def test_threads_and_cuda_after_the_imports_are_told(stage, scene):
    threads = (
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    cuda = (
        "from types import SimpleNamespace\ncuda = SimpleNamespace(is_initialized=lambda: True)\n"
    )
    scene.write("torch.py", threads + cuda)
    scene.write("train.py", "")
    forked = stage("torch")
    assert forked.run("train.py") == [0]
    assert [line.partition(" importing torch ")[2].partition(";")[0] for line in forked.said] == [
        "left 1 threads running",
        "has initialised CUDA, which no fork can use",
    ]


def test_another_one_takes_over_when_it_is_killed(stage, scene):
    """Workers that run are not concerned, and the next are forked by the new one."""
    scene.write("train.py", "import os\nos.read(os.open(os.environ['GATE'], os.O_RDONLY), 1)\n")
    forked = stage()
    forked.start("train.py")
    (worker,) = forked.take("workers_started").data["pids"]
    (zygote,) = forked.starter.pids
    watch = Watch([zygote])
    os.kill(zygote, signal.SIGKILL)
    watch.ended()
    forked.loop.run_until(lambda: forked.starter.pids not in ([zygote], []), WAIT)
    assert is_alive(worker)
    scene.gate.open()
    assert forked.take("worker_exited").data["exit_code"] == 0
    forked.launcher.stop(0, "SIGTERM", WAIT)
    forked.take("workers_stopped")
    scene.gate.open(2)
    assert forked.run("train.py", count=2, attempt=1) == [0, 0]


def test_a_start_finds_out_that_it_was_killed(stage, scene):
    """Nobody has told the launcher yet: it learns of it by asking, and asks the next one."""
    scene.write("train.py", "")
    forked = stage()
    assert forked.run("train.py") == [0]
    (zygote,) = forked.starter.pids
    watch = Watch([zygote])
    os.kill(zygote, signal.SIGKILL)
    watch.ended()
    assert forked.run("train.py", count=3, attempt=1) == [0, 0, 0]
    assert forked.starter.pids != [zygote]


def test_one_that_cannot_live_is_given_up(stage, scene):
    scene.write("deadly.py", "import os\nos._exit(9)\n")
    scene.write("train.py", "")
    forked = stage("deadly")
    forked.start("train.py")
    reason = forked.take("worker_exited").data["reason"]
    assert "the process that forks the workers ended with 9, repeatedly" in reason
    assert forked.starter.pids == []


def no_more_processes(*args, **kwargs):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_where_none_can_take_over_now_it_is_tried_again(stage, scene, monkeypatch):
    """Nothing needs it before the next start, so that no run ends for it."""
    scene.write("train.py", "")
    forked = stage()
    (zygote,) = forked.starter.pids
    monkeypatch.setattr(forkserver, "_RETRY_SECONDS", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", no_more_processes)
        os.kill(zygote, signal.SIGKILL)
        forked.loop.run_until(lambda: bool(forked.said), WAIT)
        first = forked.starter._retry
        forked.loop.run_until(lambda: forked.starter._retry is not first, WAIT)
    assert forked.run("train.py") == [0]
    assert forked.said == [
        "the process that forks the workers cannot be started: Resource temporarily unavailable; "
        "it is tried again every second"
    ]


def test_without_a_first_one_nothing_is_left_open(monkeypatch):
    loop = Loop(SystemClock())
    starter = ForkServerStarter(loop, Exits(loop))
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(subprocess, "Popen", no_more_processes)
    with pytest.raises(OSError, match="process that forks the workers cannot be started: Resource"):
        starter.open({})
    assert os.listdir("/proc/self/fd") == before
    starter.close()
    loop.close()


def test_a_stop_during_the_imports_starts_nobody(stage, scene):
    scene.write("slow.py", "import os\nopen(os.environ['GATE']).readline()\n")
    scene.write("train.py", "open('started', 'w')\n")
    forked = stage("slow")
    forked.start("train.py")
    forked.launcher.stop(0, "SIGTERM", WAIT)
    forked.take("workers_stopped")
    scene.gate.open()
    assert forked.loop.run_until(lambda: forked.starter._ready, WAIT)
    forked.loop.post(Event("asked"))
    forked.take("asked")
    assert not (scene.folder / "started").exists()
    assert forked.run("train.py", attempt=1) == [0]
    assert (scene.folder / "started").exists()


def test_a_worker_that_nobody_noted_runs_nothing(stage, scene):
    """The agent was killed between its birth and the note: the hold is closed by that."""
    scene.write("train.py", "open('started', 'w')\n")
    forked = stage()
    ready = []
    forked.starter.when_ready(lambda: ready.append(1))
    forked.loop.run_until(lambda: bool(ready), WAIT)
    plan = WorkerPlan(0, 0, (sys.executable, "train.py"), {}, str(scene.folder))
    child = forked.starter.start(plan, scene.env, Streams(None, None, None))
    os.close(child._hold)
    child._hold = None
    assert os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) == 0
    assert not (scene.folder / "started").exists()


def test_nothing_is_left_open(stage, scene):
    """A worker has its three streams and nothing of the zygote's or the agent's."""
    scene.write(
        "train.py", "import os\nprint(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])\n"
    )
    forked = stage()
    before = sorted(os.listdir("/proc/self/fd"))
    assert forked.run("train.py", count=2) == [0, 0]
    assert forked.out(1) == "[0, 1, 2]\n"
    assert sorted(os.listdir("/proc/self/fd")) == before


# -- the command line ----------------------------------------------------------------------------

WORDS = ["launcher=forkserver", "launcher.preload=[heavy]"]


def test_the_command_line_restarts_a_script(scene):
    scene.write("heavy.py", "import os\nopen(os.environ['BELL'], 'w').write('x\\n')\n")
    scene.write(
        "train.py",
        "import heavy, os, sys\n"
        "print('hello', *sys.argv[1:], flush=True)\n"
        "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os.environ['RANK'] == '1')\n",
    )
    env = {"PYTHONPATH": str(scene.folder)}
    run = scene.run(*WORDS, "spec.max_restarts=1", "-n", "2", "train.py", "a b", env=env)
    assert run.code == 0, run.err
    assert run.log(0, 1) == run.log(1, 1) == "hello a b\n"
    assert "[default1]: hello a b" in run.out
    scene.bell.path.write_text("last\n")
    assert scene.bell.wait(2) == ["x", "last"]


def test_what_lies_in_the_current_folder_is_not_taken_for_ours(scene):
    """Nor for one of Python's own modules."""
    for name in ("elastic_fsm/__init__.py", "elastic_fsm/launchers/__init__.py", "types.py"):
        scene.write(name, "raise RuntimeError('not meant')")
    scene.write("inner/train.py", "print('here')")
    program = str(Path(sys.executable).with_name("elastic-fsm"))
    run = scene.run(argv=[program, "run", "launcher=forkserver", "-n", "2", "inner/train.py"])
    assert run.code == 0, run.err
    assert run.log(0) == run.log(1) == "here\n"


@pytest.mark.torch
def test_torch_is_ready_in_each_attempt(scene):
    """A process group and a loader with processes of its own, in forks of a process with torch."""
    pytest.importorskip("torch")
    scene.write(
        "train.py",
        "import os, sys\n"
        "known = 'torch' in sys.modules\n"
        "import torch, torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.ones(1) * (dist.get_rank() + 1)\n"
        "dist.all_reduce(total)\n"
        "seen = sum(batch.sum().item() for batch in DataLoader(range(8), num_workers=2))\n"
        "print(known, total.item(), seen, flush=True)\n"
        "dist.barrier()\n"
        "os._exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and dist.get_rank() == 1)\n",
    )
    words = ["launcher=forkserver", "launcher.preload=[torch, torch.distributed]"]
    run = scene.run(*words, "spec.max_restarts=1", "-n", "2", "train.py")
    assert run.code == 0, run.err
    for rank, attempt in ((0, 0), (1, 0), (0, 1), (1, 1)):
        assert run.log(rank, attempt) == "True 3.0 28\n"


@pytest.mark.parametrize("moment", ["importing", "running"])
def test_nothing_outlives_an_agent_that_is_killed(scene, moment):
    scene.write(
        "heavy.py",
        "import os\n" + "open(os.environ['GATE']).readline()\n" * (moment == "importing"),
    )
    scene.write(
        "train.py",
        "import os, subprocess\n"
        "subprocess.Popen(['sleep', os.environ['SLEEP']], start_new_session=True)\n"
        "open(os.environ['BELL'], 'w').write('up\\n')\n"
        "open(os.environ['GATE']).readline()\n",
    )
    run = scene.start(*WORDS, "-n", "2", "train.py", env={"PYTHONPATH": str(scene.folder)})
    run.enters("STARTING") if moment == "importing" else scene.bell.wait(2)
    watch = scene.watch()
    run.signal("SIGKILL")
    watch.ended()
    assert not scene.survivors()


def test_ctrl_c_stops_the_workers(scene):
    scene.write("heavy.py", "")
    scene.write(
        "train.py",
        "import os\n"
        "open(os.environ['BELL'], 'w').write('up\\n')\n"
        "open(os.environ['GATE']).read()\n",
    )
    run = scene.start(*WORDS, "-n", "2", "train.py", env={"PYTHONPATH": str(scene.folder)})
    scene.bell.wait(2)
    run.signal("SIGINT")
    assert run.wait() == 130
    assert not scene.survivors()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["launcher=forkserver", "--", "sh", "-c", "exit"], "'sh' is neither"),
        (
            ["launcher=forkserver", "launcher.preload=[nosuch.one]", "t.py"],
            "no module named 'nosuch.one'",
        ),
        (["launcher.preload=[json]", "t.py"], "launcher=subprocess preloads nothing"),
        (["launcher.start_method=spoon", "t.py"], "did you mean 'spawn'?"),
        (["launcher.name=forksever", "t.py"], "did you mean 'forkserver'?"),
    ],
)
def test_bad_choices_are_told_before_anything_starts(scene, words, says):
    scene.write("t.py", "")
    run = scene.run(*words)
    assert run.code == 2
    assert says in run.err
    assert "Traceback" not in run.err
    assert not (scene.folder / "elastic_runs").exists()


def test_where_there_is_no_subreaper(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    launcher = {"name": "forkserver", "start_method": "spawn", "preload": []}
    spec = {"entrypoint": "t.py", "module": False, "env": {}}
    (problem,) = check_launcher(launcher, spec)
    assert "needs Linux" in problem.what


def test_names_that_there_are_not():
    for name, method in (("nobody", "spawn"), ("multiprocessing", "spoon")):
        with pytest.raises(ValueError, match="unknown"):
            make_starter(name, loop=None, exits=None, start_method=method)


@pytest.mark.parametrize(
    ("argv", "task"),
    [
        (["python", "-u", "x.py", "-m"], ("script", "x.py", "-m")),
        (["python", "-m", "x.y", "a"], ("module", "x.y", "a")),
        (["python", "-c", "1"], None),
        (["./x"], None),
    ],
)
def test_what_an_interpreter_is_told_to_do(argv, task):
    found = None
    with suppress(OSError):
        found = python_task(argv)
    assert found == task

"""Function workers: what they return, raise and leave, by each start method."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import function_workers as work
import pytest

from elastic_fsm.group import WorkerSpec
from elastic_fsm.launchers.base import WorkerPlan
from elastic_fsm.launchers.functions import Outcome, check_function
from elastic_fsm.launchers.plan import what_to_run
from elastic_fsm.launchers.spawning import SpawnStarter
from elastic_fsm.launchers.streams import Streams
from elastic_fsm.logs.specs import DefaultLogsSpecs, Std
from elastic_fsm.server.processes import start_processes

pytestmark = pytest.mark.slow

METHODS = ["spawn", "fork", "forkserver"]


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


@pytest.fixture
def run(tmp_path):
    """``run(function, (args of rank 0,), (args of rank 1,), …, start_method=…)``."""
    contexts = []

    def start(function, *args, start_method="spawn", env=None):
        envs = {rank: {"RANK": str(rank + 10), **(env or {})} for rank in range(len(args))}
        logs = DefaultLogsSpecs(str(tmp_path / "logs"), redirects=Std.ALL)
        given = dict(enumerate(args))
        contexts.append(
            start_processes("test", function, given, envs, logs, start_method=start_method)
        )
        return contexts[-1].wait()

    yield start
    for context in contexts:
        context.close()


def test_a_spawn_that_fails_leaves_nothing_open(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(
        "elastic_fsm.launchers.spawning.Outcome", lambda: made.append(Outcome()) or made[0]
    )
    plan = WorkerPlan(0, 0, (), {}, function=work.give, cwd=str(tmp_path / "nowhere"))
    with ExitStack() as files, pytest.raises(OSError, match="nowhere"):
        SpawnStarter().start(plan, dict(os.environ), Streams.of(plan, files))
    with pytest.raises(ValueError, match="closed file"):
        made[0].fileno()


def test_values_come_back_by_rank(run, method):
    result = run(work.give, ("a",), ({"b": [1]},), (), start_method=method)
    assert result.return_values == {0: "a", 1: {"b": [1]}, 2: None}
    assert not result.is_failed()


def test_a_worker_has_a_session_a_parent_and_an_environment_of_its_own(run, method):
    env = {"MASTER_ADDR": "here", "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "7"}
    result = run(work.describe, ("PATH", *env), start_method=method, env=env)
    found = result.return_values[0]
    assert found["session"] == found["pid"]
    assert found["parent"] == os.getpid()
    assert found["folder"] == os.getcwd()
    assert found["stdin"] == ""
    assert found["term"]
    assert found["env"] == {"PATH": os.environ["PATH"], **env}


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_programs_of_a_worker_inherit_nothing_of_ours(run, monkeypatch, tmp_path, start_method):
    monkeypatch.chdir(tmp_path)
    result = run(work.open_in_a_program, (), start_method=start_method)
    assert result.return_values == {0: 4}  # the three streams, and what `ls` itself opens


def test_a_function_that_closes_our_descriptor_fails_clearly(run, method, tmp_path):
    result = run(work.close_all, (5,), (5, f"{tmp_path}/file"), start_method=method)
    [failure] = list(result.failures.values())[:1]
    place = f"of rank {failure.local_rank + 10} (local rank None) on {os.uname().nodename} is lost"
    assert place in failure.message
    assert "its function closed the descriptor that takes it" in failure.message
    assert Path(result.stderrs[failure.local_rank]).read_text().count("\n") == 1
    assert not any(path.stat().st_size for path in tmp_path.glob("file*"))


def test_a_function_that_closes_our_descriptor_may_return_nothing(run, method, tmp_path):
    result = run(work.close_all, (None,), (None, f"{tmp_path}/file"), start_method=method)
    assert result.return_values == {0: None, 1: None}


def test_a_function_that_closes_our_descriptor_may_raise(run, method, tmp_path):
    result = run(work.close_all, ("raise", f"{tmp_path}/file"), start_method=method)
    [failure] = result.failures.values()
    assert (failure.message, failure.exception) == ("ValueError: no luck", None)
    assert "in fail" in failure.traceback
    assert not any(path.stat().st_size for path in tmp_path.glob("file*"))


def test_an_exception_comes_with_its_traceback_and_can_be_raised_again(run, method):
    result = run(work.fail, ("no luck",), start_method=method)
    failure = result.failures[0]
    assert result.return_values == {}
    assert (failure.exitcode, failure.message) == (1, "ValueError: no luck")
    assert "in fail" in failure.traceback
    assert "launchers" not in failure.traceback
    file = json.loads(Path(failure.error_file).read_text())["message"]
    assert file["message"] == "ValueError: no luck"
    assert set(file["extraInfo"]) == {"py_callstack", "timestamp"}
    with pytest.raises(ValueError, match="no luck") as caught:
        raise failure.exception
    assert any("in fail" in note for note in caught.value.__notes__)
    printed = Path(result.stderrs[0]).read_text()
    assert printed.startswith("Traceback")
    assert "launchers" not in printed


def test_an_exception_that_cannot_be_made_again_is_still_told(run):
    failure = run(work.fail_oddly, ()).failures[0]
    assert failure.exception is None
    assert failure.message == "Odd: 1 and 2"


@pytest.mark.parametrize("how", ["0", "none", "os._exit 0"])
def test_an_orderly_end_is_a_success_without_a_value(run, method, how):
    assert run(work.leave, (how,), start_method=method).return_values == {0: None}


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("3", 3),
        ("text", 1),
        ("os._exit 5", 5),
        ("SIGKILL", -9),
        ("SIGTERM", -15),
        ("interrupt", -2),
    ],
)
def test_every_end_is_an_end_with_its_code(run, method, how, code):
    result = run(work.leave, (how,), start_method=method)
    assert result.failures[0].exitcode == code
    assert Path(result.stdouts[0]).read_text() == f"leaving {how}\n"
    if how == "text":
        assert Path(result.stderrs[0]).read_text() == "the text\n"


def test_large_values_go_both_ways(run, method):
    size = 150_000_000
    assert len(run(work.big, (size,), start_method=method).return_values[0]) == size
    assert run(work.length, (bytes(size),), start_method=method).return_values == {0: size}


def test_a_value_that_cannot_be_pickled_is_a_failure_that_says_so(run, method):
    failure = run(work.generator, (), start_method=method, env={"LOCAL_RANK": "0"}).failures[0]
    assert failure.exitcode == 1
    assert "the return value of rank 10 (local rank 0) on " in failure.message
    assert ", of type generator, cannot be pickled" in failure.message


def test_a_value_that_cannot_be_read_is_a_failure_that_says_so(run):
    failure = run(work.unreadable, ()).failures[0]
    assert failure.exitcode == 1
    assert failure.reason == "its return value cannot be read: RuntimeError: cannot be made here"


def test_a_worker_that_dies_after_its_result_has_failed(run, method):
    result = run(work.die_after_the_result, (), start_method=method)
    assert result.return_values == {}
    assert result.failures[0].exitcode == -signal.SIGKILL


def test_threads_and_handlers_at_exit_are_waited_for(run, method, tmp_path):
    late = tmp_path / "late"
    late.mkdir()
    assert run(work.finish_late, (str(late),), start_method=method).return_values == {0: None}
    assert sorted(path.name for path in late.iterdir()) == ["at exit", "thread"]


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_a_closure_is_refused_before_anything_starts(run, tmp_path, start_method):
    inner = [lambda: 1]
    with pytest.raises(ValueError, match=r"<lambda> cannot be started: .*start_method=fork"):
        run(inner[0], (), start_method=start_method)
    assert not list((tmp_path / "logs").glob("*/*"))


def test_a_closure_works_under_fork(run):
    value = {"inner": object()}
    result = run(lambda: list(value), (), start_method="fork")
    assert result.return_values == {0: ["inner"]}


def test_arguments_that_cannot_be_sent_are_refused(run):
    with pytest.raises(ValueError, match=r"arguments of the function give .* cannot pickle"):
        run(work.give, (sys.stdout.buffer,))


def test_a_function_of_a_program_without_a_file_is_refused(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    monkeypatch.setattr(work.give, "__module__", "__main__")
    with pytest.raises(ValueError, match=r"give cannot be started: .*not a file"):
        check_function(work.give)
    check_function(work.give, start_method="fork")


def test_only_text_is_filled_in():
    spec = WorkerSpec(
        "r", 2, entrypoint=work.give, args=("cuda:${local_rank}", 3, ["${local_rank}"])
    )
    assert what_to_run(spec, 1) == {
        "argv": (),
        "function": work.give,
        "args": ("cuda:1", 3, ["${local_rank}"]),
    }


MAIN = """
import sys
from elastic_fsm.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes

class Mine(Exception):
    pass

def train(value):
    print("training", value)
    if value == "bad":
        raise Mine(value)
    return value * 2

def main():
    for value in ("good", "bad"):
        logs = DefaultLogsSpecs("logs")
        given = {0: (value,)}, {0: {}}, logs
        result = start_processes("x", train, *given, start_method=sys.argv[1]).wait()
        failures = [repr(f.exception) for f in result.failures.values()]
        print(result.return_values, failures, flush=True)

"""


@pytest.mark.parametrize("start_method", METHODS)
def test_functions_of_a_program_work(scene, start_method):
    scene.write("program.py", MAIN + 'if __name__ == "__main__":\n    main()\n')
    program = scene.run(argv=[sys.executable, "program.py", start_method])
    assert program.code == 0, program.err
    assert program.out == (
        "training good\n{0: 'goodgood'} []\ntraining bad\n{} [\"Mine('bad')\"]\n"
    )


@pytest.mark.parametrize("start_method", METHODS)
def test_what_lies_in_the_current_folder_is_not_taken_for_ours(scene, start_method):
    scene.write("elastic_fsm/__init__.py", "raise RuntimeError('not meant')")
    scene.write("inner/program.py", MAIN + 'if __name__ == "__main__":\n    main()\n')
    program = scene.run(argv=[sys.executable, "inner/program.py", start_method])
    assert program.code == 0, program.err
    assert program.out.startswith("training good\n{0: 'goodgood'}")


def test_a_program_without_its_guard_is_told_so(scene):
    scene.write("program.py", MAIN + "main()\n")
    program = scene.run(argv=[sys.executable, "program.py", "spawn"])
    assert 'if __name__ == "__main__"' in program.err.replace("'", '"')
    assert program.out.startswith("{} ['RuntimeError(")


def test_output_before_a_fork_is_written_once_and_first(scene):
    before = 'if __name__ == "__main__":\n    print("once", end=" ")\n    main()\n'
    scene.write("program.py", MAIN + before)
    program = scene.run(argv=[sys.executable, "program.py", "fork"])
    assert program.out.startswith("once training good\n")
    assert program.out.count("once") == 1


SHARING = """
import multiprocessing, sys
from elastic_fsm.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes

def put(queue, value):
    queue.put(value)

if __name__ == "__main__":
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    args, logs = {0: (queue, "from a worker")}, DefaultLogsSpecs("logs")
    start_processes("x", put, args, {0: {}}, logs, start_method=sys.argv[1]).wait()
    print(queue.get())
"""


@pytest.mark.parametrize("start_method", METHODS)
def test_what_multiprocessing_shares_may_be_an_argument(scene, start_method):
    scene.write("program.py", SHARING)
    program = scene.run(argv=[sys.executable, "program.py", start_method])
    assert (program.out, program.err) == ("from a worker\n", "")


ABANDONED = """
import os, sys
sys.path[:0] = [{here!r}]
import function_workers
from elastic_fsm.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
if __name__ == "__main__":
    args = dict.fromkeys(range(2), (os.environ["BELL"],))
    logs = DefaultLogsSpecs("logs")
    work = function_workers.leave_things_behind
    start_processes("x", work, args, {{0: {{}}, 1: {{}}}}, logs, start_method=sys.argv[1]).wait()
"""


@pytest.mark.parametrize("start_method", METHODS)
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_nothing_outlives_the_agent(scene, start_method, how):
    scene.write("program.py", ABANDONED.format(here=str(Path(work.__file__).parent)))
    program = scene.start(argv=[sys.executable, "program.py", start_method])
    scene.bell.wait(2)
    watch = scene.watch()
    program.signal(how)
    watch.ended()
    assert not scene.survivors()


def test_unpickled_results_are_those_of_the_last_attempt(tmp_path):
    """Values of an attempt that was restarted are forgotten."""
    from elastic_fsm.clock import SystemClock
    from elastic_fsm.launchers.base import LaunchPlan, WorkerPlan
    from elastic_fsm.launchers.choice import make_starter
    from elastic_fsm.launchers.local import SubprocessLauncher
    from elastic_fsm.loop import Loop
    from elastic_fsm.sources.exits import Exits

    loop = Loop(SystemClock())
    exits = Exits(loop)
    starter = make_starter("multiprocessing", loop=loop, exits=exits, start_method="fork")
    launcher = SubprocessLauncher(loop, exits, starter=starter)

    def attempt(number, *functions):
        plans = [WorkerPlan(rank, rank, (), {}, function=f) for rank, f in enumerate(functions)]
        launcher.start(LaunchPlan(number, tuple(plans)))
        names = [loop.next_event().name for _ in range(len(functions) + 1)]
        assert names[0] == "workers_started"

    attempt(0, lambda: "first", lambda: 1 / 0)
    assert launcher.return_values() == {0: "first"}
    assert pickle.dumps(launcher.exceptions())
    launcher.stop(0, "SIGTERM", 5)
    assert loop.next_event().name == "workers_stopped"
    attempt(1, lambda: 1 / 0, lambda: "second")
    launcher.close()
    assert launcher.return_values() == {1: "second"}
    assert [type(error) for error in launcher.exceptions().values()] == [ZeroDivisionError]
    exits.close()
    loop.close()


def test_a_fork_that_fails_leaves_no_descriptor(monkeypatch):
    from elastic_fsm.launchers import forking
    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.launchers.streams import Streams

    def no_process_left():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(forking, "_fork", no_process_left)
    plan = WorkerPlan(0, 0, (), {}, function=int)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        forking.ForkStarter().start(plan, {}, Streams(None, None, None))
    assert os.listdir("/proc/self/fd") == before


def test_a_value_that_would_end_the_agent_is_a_failure(run, method):
    result = run(work.give_what_leaves, (), start_method=method)
    assert result.failures[0].message == "its return value cannot be read: SystemExit: 3"


def test_an_exception_that_cannot_be_shown_is_recorded(run, method):
    failure = run(work.fail_unprintably, (), start_method=method).failures[0]
    assert failure.message == "Unprintable: (its text cannot be shown)"
    assert isinstance(failure.exception, work.Unprintable)

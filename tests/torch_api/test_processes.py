"""``start_processes``: the blocking front, its logs and its signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import function_workers as work
import pytest

from elastic_fsm.distributed.elastic import multiprocessing as mirror
from elastic_fsm.distributed.elastic.multiprocessing import errors
from elastic_fsm.failures import SignalException
from elastic_fsm.logs.specs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std
from elastic_fsm.server.processes import (
    MultiprocessContext,
    PContext,
    SubprocessContext,
    start_processes,
)

pytestmark = pytest.mark.slow

WAITS = 'echo up > "$BELL"; exec sleep "$SLEEP"'


@pytest.fixture
def start(scene, tmp_path):
    """``start("sh", ("-c", "…"), …)``: one process for each tuple of arguments."""
    contexts = []

    def start(entrypoint, *args, logs=None, env=None, **options):
        logs = logs or DefaultLogsSpecs(str(tmp_path / "logs"), redirects=Std.ALL)
        envs = {rank: {**scene.env, **(env or {})} for rank in range(len(args))}
        given = "trainer", entrypoint, dict(enumerate(args)), envs, logs
        contexts.append(start_processes(*given, **options))
        return contexts[-1]

    yield start
    for context in contexts:
        context.close()


def shells(*scripts):
    return [("-c", script) for script in scripts]


def test_programs_end_well(start):
    context = start("sh", *shells("echo $0 out; echo err >&2", "exit 0"))
    result = context.wait()
    assert isinstance(context, SubprocessContext)
    assert result.return_values == {0: None, 1: None}
    assert result.failures == {}
    assert (result.stdouts, result.stderrs) == (context.stdouts, context.stderrs)
    assert Path(context.stdouts[0]).read_text() == "sh out\n"
    assert Path(context.stderrs[0]).read_text() == "err\n"
    assert context.wait() is result
    assert (context.nprocs, context.entrypoint, context.name) == (2, "sh", "trainer")
    assert set(context.error_files) == set(context.envs) == set(context.args) == {0, 1}


def test_arguments_of_a_program_become_text(start):
    context = start("echo", (1, None, [2]))
    context.wait()
    assert Path(context.stdouts[0]).read_text() == "1 None [2]\n"


def test_a_failure_stops_the_others(start, scene):
    context = start("sh", *shells(WAITS, 'read go < "$GATE"; echo last words >&2; exit 7', WAITS))
    scene.bell.wait(2)
    assert context.wait(0) is None
    scene.gate.open()
    result = context.wait()
    assert result.is_failed()
    assert set(result.failures) == {1}
    failure = result.failures[1]
    assert (failure.exitcode, failure.pid) == (7, context.pids()[1])
    assert failure.stderr_tail == ["last words"]
    assert not scene.survivors()


def test_a_wait_ends_when_its_time_is_over(start, scene):
    context = start("sh", *shells(WAITS))
    scene.bell.wait()
    assert context.wait(0) is None
    assert context.wait(0.01, period=100) is None
    os.kill(context.pids()[0], signal.SIGKILL)
    assert context.wait(-1).failures[0].exitcode == -signal.SIGKILL
    assert context.wait(0).failures[0].signal_name() == "SIGKILL"


def test_close_sends_the_signal_and_then_kills(start, scene):
    heard = 'trap "echo heard > heard; exit" USR1; echo up > "$BELL"; sleep 600 & wait'
    deaf = 'trap "" USR1; echo up > "$BELL"; while :; do sleep 600; done'
    os.chdir(scene.folder)
    context = start("sh", *shells(heard, deaf))
    scene.bell.wait(2)
    context.close(signal.SIGUSR1, timeout=0.2)
    assert (scene.folder / "heard").exists()
    assert not scene.survivors()
    context.close()


def test_processes_as_others_read_them(start, scene):
    context = start("sh", *shells(WAITS, WAITS))
    scene.bell.wait(2)
    handlers = context.subprocess_handlers
    assert {rank: handler.proc.pid for rank, handler in handlers.items()} == context.pids()
    assert handlers[0].proc.poll() is None
    handlers[0].close()
    assert context.wait().failures[0].exitcode == -signal.SIGTERM
    assert handlers[0].proc.poll() is None  # reaped: nobody knows any more


def test_a_function_has_a_context_of_its_own(start):
    context = start(work.give, (3,), start_method="fork")
    assert isinstance(context, MultiprocessContext)
    assert isinstance(context, PContext)
    assert context.start_method == "fork"
    assert context.wait().return_values == {0: 3}


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "envs", "says"),
    [
        ({1: ()}, {1: {}}, r"args must be for the local ranks 0 to 0, not for \[1\]"),
        ({0: (), 1: ()}, {0: {}}, r"envs must be for the local ranks 0 to 1, not for \[0\]"),
    ],
)
def test_ranks_that_do_not_fit(args, envs, says):
    with pytest.raises(RuntimeError, match=says):
        start_processes("x", "true", args, envs, DefaultLogsSpecs(os.devnull))


def test_logs_of_other_ranks_are_refused():
    class Odd(LogsSpecs):
        root_log_dir = ""

        def reify(self, envs):
            return LogsDest(stdouts={5: ""}, stderrs={0: ""})

    with pytest.raises(RuntimeError, match=r"stdouts must be for the local ranks 0 to 0"):
        start_processes("x", "true", {0: ()}, {0: {}}, Odd())


def test_a_program_that_is_not_there(start, scene):
    with pytest.raises(FileNotFoundError, match=r"local rank 0 cannot be started: .*nosuch"):
        start("nosuch", (), ())
    assert not scene.survivors()


def test_options_that_are_not_offered(start):
    with pytest.raises(ValueError, match="numactl"):
        start("true", (), numa_options=object())
    with pytest.raises(ValueError, match="unknown start method 'spoon'"):
        start(work.give, (), start_method="spoon")


def test_a_second_start_is_refused(start):
    context = start("true", ())
    with pytest.raises(RuntimeError, match="started before"):
        context.start()


# -- signals -------------------------------------------------------------------------------------

TELL_PARENT = 'read go < "$GATE"; kill -{} $PPID; exec sleep "$SLEEP"'


def handlers():
    return [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_a_stop_signal_leaves_the_wait(start, scene, name):
    before = handlers()
    context = start("sh", *shells(TELL_PARENT.format(name)))
    with pytest.raises(SignalException) as caught:  # noqa: PT012 (it may come before the wait)
        scene.gate.open()
        context.wait()
    assert caught.value.sigval is signal.Signals[f"SIG{name}"]
    assert handlers() != before
    context.close(caught.value.sigval)
    assert handlers() == before
    assert not scene.survivors()


def test_a_stop_signal_between_two_waits_is_raised_at_once(start, scene):
    context = start("sh", *shells(WAITS))
    scene.bell.wait()
    assert context.wait(0) is None
    with pytest.raises(SignalException):
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_during_the_close_cuts_it_short_and_is_not_lost(start, scene):
    stubborn = 'trap "kill -HUP $PPID" TERM; echo up > "$BELL"; while :; do sleep 600 & wait; done'
    context = start("sh", *shells(stubborn))
    scene.bell.wait()
    with pytest.raises(SignalException) as caught:
        context.close(timeout=600)
    assert caught.value.sigval is signal.SIGHUP
    assert not scene.survivors()


def test_only_the_named_signals_are_taken(start, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGUSR2, ")
    before = handlers()
    start("true", ())
    assert handlers() == before
    with pytest.raises(SignalException):
        signal.raise_signal(signal.SIGUSR2)


@pytest.mark.parametrize("name", ["SIGNONE", "SIGKILL", "Signals"])
def test_what_is_no_signal_is_told_of_the_variable(start, monkeypatch, name):
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", f"SIGUSR2,{name}")
    with pytest.raises(ValueError, match=f"^TORCHELASTIC_SIGNALS_TO_HANDLE: .*{name}"):
        start("true", ())


def test_another_thread_takes_no_signals(start):
    before, results = handlers(), []

    def run():
        context = start("sh", *shells("exit 3"))
        results.append((handlers(), context.wait()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert results[0][0] == before
    assert results[0][1].failures[0].exitcode == 3


# -- output --------------------------------------------------------------------------------------

PROGRAM = """
import sys
from elastic_fsm.distributed.elastic.multiprocessing import *

script = 'for w in one two three; do echo "$w $0"; echo "error $w $0" >&2; done'
logs = DefaultLogsSpecs("logs", *map(Std.from_str, sys.argv[1:3]), eval(sys.argv[3]))
args = {rank: ("-c", script, str(rank)) for rank in range(2)}
envs = {rank: {"TORCHELASTIC_RUN_ID": "job"} for rank in range(2)}
start_processes("sh", "sh", args, envs, logs, **eval(sys.argv[4])).wait()
"""


def run_program(scene, redirects="0", tee="0", ranks="None", options="{}"):
    scene.write("program.py", PROGRAM)
    program = scene.run(argv=[sys.executable, "program.py", redirects, tee, ranks, options])
    assert program.code == 0, program.err
    (attempt,) = scene.folder.glob("logs/job_*/attempt_0")
    files = {str(p.relative_to(attempt)): p.read_text() for p in attempt.rglob("*") if p.is_file()}
    return sorted(program.out.splitlines()), sorted(program.err.splitlines()), files


def lines(rank, before=""):
    return [f"{before}{word} {rank}" for word in ("one", "three", "two")]


def test_the_console_is_what_is_neither_redirected_nor_filtered(scene):
    out, err, files = run_program(scene)
    assert out == sorted(lines(0) + lines(1))
    assert err == sorted(lines(0, "error ") + lines(1, "error "))
    assert files == {}


def test_redirects_by_rank(scene):
    out, err, files = run_program(scene, "0:3,1:1")
    assert (out, err) == ([], lines(1, "error "))
    assert set(files) == {"0/stdout.log", "0/stderr.log", "1/stdout.log"}
    assert sorted(files["1/stdout.log"].splitlines()) == lines(1)


def test_tee_goes_to_both_with_a_prefix(scene):
    out, err, files = run_program(scene, tee="3", options="{'log_line_prefixes': {1: 'R1> '}}")
    assert out == sorted(lines(0, "[sh0]:") + lines(1, "R1> "))
    assert err == sorted(lines(0, "[sh0]:error ") + lines(1, "R1> error "))
    assert files["0/stdout.log"] == "one 0\ntwo 0\nthree 0\n"
    assert len(files) == 4


@pytest.mark.parametrize("tee", ["0", "3"])
def test_the_filter_keeps_ranks_off_the_console_only(scene, tee):
    out, err, files = run_program(scene, tee=tee, ranks="{1}")
    prefix = "[sh1]:" if tee == "3" else ""
    assert (out, err) == (lines(1, prefix), lines(1, f"{prefix}error "))
    assert len(files) == (4 if tee == "3" else 0)


def test_lines_with_a_word_are_copied_beside_the_ranks(scene):
    options = (
        "{'duplicate_stdout_filters': ['two', 'one 1'], 'duplicate_stderr_filters': ['three']}"
    )
    out, _, files = run_program(scene, tee="0:3,1:1", options=options)
    assert len(out) == 6
    found = sorted(files["filtered_stdout.log"].splitlines())
    assert found == ["[sh0]:two 0", "[sh1]:one 1", "[sh1]:two 1"]
    assert files["filtered_stderr.log"] == "[sh0]:error three 0\n"


def test_without_filters_there_is_no_copy(scene):
    _, _, files = run_program(scene, tee="3", options="{'duplicate_stdout_filters': ['nothing']}")
    assert files.pop("filtered_stdout.log") == ""
    assert "filtered_stderr.log" not in files


def test_torchs_module_paths():
    for module in (mirror, errors):
        assert all(getattr(module, name) for name in module.__all__)
    theirs = pytest.importorskip("torch.distributed.elastic.multiprocessing")
    assert set(theirs.__all__) <= set(mirror.__all__)


def test_those_that_were_stopped_before_anybody_waited_count_as_failed(start, scene):
    """As torch's do for programs: a loop of a subclass's own looks at its workers once more."""
    context = start("sh", *shells(WAITS, WAITS))
    scene.bell.wait(2)
    context.close()
    result = context.wait(0)
    assert [failure.exitcode for failure in result.failures.values()] == [-15, -15]
    assert context.wait() is result


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"args": {}, "envs": {}}, RuntimeError, "args must be for the local ranks"),
        ({"args": [(), ()]}, RuntimeError, "args must be for the local ranks 0 to 1"),
        ({"args": {0: "a", 1: ()}}, ValueError, r"args\[0\] must be a tuple, not 'a'"),
        ({"entrypoint": None}, ValueError, "entrypoint must name a program or be a function"),
        ({"envs": {0: {"A": 1}, 1: {}}}, ValueError, r"envs\[0\] must hold texts, not 'A': 1"),
        ({"envs": {0: {}, 1: {"A=": ""}}}, ValueError, "no environment can hold 'A='"),
    ],
)
def test_what_cannot_work_is_told_before_anything_starts(tmp_path, given, error, message):
    values = {
        "name": "trainer",
        "entrypoint": "/bin/true",
        "args": {0: (), 1: ()},
        "envs": {0: {}, 1: {}},
        "logs_specs": DefaultLogsSpecs(os.devnull),
    }
    with pytest.raises(error, match=message):
        start_processes(**{**values, **given})

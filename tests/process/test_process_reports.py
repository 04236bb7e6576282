"""How a run ended: the cause first, consequences apart, on the console and in report.json."""

from __future__ import annotations

import re
import resource
import sys

import pytest
from process_harness import Watch

pytestmark = pytest.mark.slow

AT_GATE = 'echo $$ >"$BELL"; read x <"$GATE"'


def causes(run, attempt: int = -1) -> list[dict]:
    return run.report["attempts"][attempt]["causes"]


def test_C1_the_workers_own_error(scene):
    """No decorator is needed: the last lines of standard error tell, and no frame of ours does."""
    scene.write("train.py", "def step():\n    raise ValueError('lr is NaN')\nstep()\n")
    run = scene.run("-n", "2", "spec.worker_env.1.X=1", "train.py")
    assert run.code == 1
    cause = causes(run)[0]
    assert cause["stderr_tail"][-1] == "ValueError: lr is NaN"
    assert cause["pid"] > 0
    assert cause["host"] == run.report["host"]
    report = run.err[run.err.index("=" * 70) :]
    for part in ("FAILED", "ValueError: lr is NaN", "train.py", cause["host"], "exited with 1"):
        assert part in report
    for name in ("launch.py", "agent.py", "loop.py", "elastic_fsm/"):
        assert name not in report.replace("elastic_runs", "")
    assert "spec.max_restarts=" in report


def test_the_error_file_of_a_recorded_function(scene):
    scene.write(
        "train.py",
        "from elastic_fsm import record\n"
        "@record\n"
        "def main():\n"
        "    raise KeyError('no such layer')\n"
        "main()\n",
    )
    run = scene.run("train.py")
    assert run.code == 1
    (cause,) = causes(run)
    assert cause["message"] == "KeyError: 'no such layer'"
    assert cause["error_file"] == str(run.node / "attempt_0/0/error.json")
    assert "in main" in cause["traceback"]
    assert "its traceback:" in run.err


@pytest.mark.parametrize(
    ("script", "code", "name", "words"),
    [
        ("kill -KILL $$", -9, "SIGKILL", "was ended by SIGKILL (-9)"),
        ("kill -SEGV $$", -11, "SIGSEGV", "was ended by SIGSEGV (-11)"),
        ("exit 75", 75, "", "exited with 75"),
    ],
)
def test_C2_codes_and_signals_by_name(scene, script, code, name, words):
    run = scene.run("--", "sh", "-c", script)
    (cause,) = causes(run)
    assert (cause["exit_code"], cause["signal"]) == (code, name)
    assert words in run.err
    assert run.code == (code if code > 0 else 128 - code)


def test_C2_the_first_failure_gives_the_exit_code(scene):
    """Both have failed when the agent looks; the one that failed first decides."""
    script = f"{AT_GATE}; exit $((70 + RANK))"
    run = scene.start("-n", "2", "--", "sh", "-c", script)
    pids = [int(line) for line in scene.bell.wait(2)]
    run.enters("HEALTHY")
    run.signal("SIGSTOP")
    watch = Watch(pids)
    scene.gate.open(2)
    watch.ended()
    run.signal("SIGCONT")
    code = run.wait()
    ended = [r["event"]["data"]["exit_code"] for r in run.journal[1:] if _is_exit(r)]
    assert sorted(ended) == [70, 71]
    assert code == ended[0]
    assert [c["exit_code"] for c in sorted(causes(run), key=lambda c: c["time"])] == ended


def _is_exit(record) -> bool:
    return record["event"]["name"] == "worker_exited"


def test_C4_the_cause_is_not_what_the_agent_stopped(scene):
    script = f'if [ $RANK = 2 ]; then {AT_GATE}; exit 1; fi; echo >"$BELL"; exec sleep "$SLEEP"'
    run = scene.start("-n", "4", "--", "sh", "-c", script)
    scene.bell.wait(4)
    run.enters("HEALTHY")
    scene.gate.open()
    assert run.wait() == 1
    (attempt,) = run.report["attempts"]
    assert [c["rank"] for c in attempt["causes"]] == [2]
    assert {c["rank"]: c["signal"] for c in attempt["consequences"]} == dict.fromkeys(
        (0, 1, 3), "SIGTERM"
    )
    assert "stopped by the agent: ranks 0-1, 3" in run.err
    assert run.err.count("cause:") == 1


def test_C6_the_same_error_of_all_ranks_is_shown_once(scene):
    code = (
        "import os\n"
        "open(os.environ['BELL'], 'w').write(f'{os.getpid()}\\n')\n"
        "open(os.environ['GATE'], 'rb', buffering=0).read(1)\n"
        "raise ValueError('the same')\n"
    )
    run = scene.start("-n", "8", "logs=files", "--", sys.executable, "-c", code)
    watch = Watch(map(int, scene.bell.wait(8)))
    run.enters("HEALTHY")
    run.signal("SIGSTOP")  # so that all have ended before the agent stops any
    scene.gate.open(8)
    watch.ended()
    run.signal("SIGCONT")
    assert run.wait() == 1
    assert len(causes(run)) == 8
    assert run.err.count("cause: 8 ranks, 0-7, on ") == run.err.count("cause:") == 1
    assert run.err.count("Traceback") == 1


@pytest.mark.parametrize(("grace", "saves"), [("10m", True), ("0.1", False)])
def test_B1_the_grace_is_the_users_choice(scene, grace, saves):
    """A worker that needs time after the stop signal gets it, or is killed and that is said."""
    scene.write("save", 'trap "echo asked >$BELL; read x <$GATE; touch saved; exit 0" TERM\n')
    script = f". ./save; {AT_GATE}"
    run = scene.start(f"stop.grace={grace}", "--", "sh", "-c", script)
    scene.bell.wait()
    run.enters("HEALTHY")
    run.signal("SIGTERM")
    assert scene.bell.wait() == ["asked"]
    if saves:
        scene.gate.open()
    assert run.wait() == 143
    assert (scene.folder / "saved").exists() == saves
    (stopped,) = run.report["attempts"][0]["consequences"]
    assert stopped["signal"] == ("" if saves else "SIGKILL")
    assert stopped["exit_code"] == (0 if saves else -9)
    assert (
        f"{'stopped by the agent' if saves else 'killed by the agent (SIGKILL)'}: rank 0" in run.err
    )


BREAKS = """\
from elastic_fsm import action, condition
@action
def breaks(agent, event):
    raise RuntimeError("broken action")
@condition
def wrong(event, facts):
    raise RuntimeError("broken condition")
"""
ENDS = {
    "success": ([], "exit 0", 0, "SUCCEEDED"),
    "failure": ([], "exit 9", 9, "FAILED"),
    "failures": (["spec.max_restarts=2"], "exit 9", 9, "FAILED"),
    "first failure": (["machine=fail_fast", "spec.max_restarts=2"], "exit 9", 9, "FAILED"),
    "an action that raises": (
        ["plugins=[breaks]", "machine.states.HEALTHY.on_enter=[breaks]"],
        'exec sleep "$SLEEP"',
        70,
        "UNKNOWN",
    ),
    "a condition that raises": (
        ["plugins=[breaks]", "machine.transitions.worker_lost.conditions=[wrong]"],
        "exit 9",
        70,
        "UNKNOWN",
    ),
    "a final action that raises": (
        ["plugins=[breaks]", "machine.states.SUCCEEDED.on_enter=[breaks]"],
        "exit 0",
        70,
        "UNKNOWN",
    ),
    "no port": (["spec.local_addr=203.0.113.77"], "exit 0", 1, "FAILED"),
}


@pytest.mark.parametrize("end", ENDS)
def test_C10_every_end_has_a_result(scene, end):
    scene.write("breaks.py", BREAKS)
    words, script, code, state = ENDS[end]
    run = scene.run("-n", "2", *words, "--", "sh", "-c", script)
    assert run.code == run.report["exit_code"] == code, run.err
    assert run.report["state"] == state
    assert "Traceback" not in run.err
    if code == 70:
        assert "RuntimeError: broken" in run.report["error"]
        assert "RuntimeError: broken" in run.err


def test_a_program_that_vanishes_before_it_is_started(scene, hold):
    """It was there when it was checked."""
    program = scene.write("program", "#!/bin/sh\nexit 0\n")
    words = ["plugins=[holding]", "machine.states.STARTING.on_enter=[hold, start_workers]"]
    for change, code in ((lambda: program.chmod(0o644), 126), (program.unlink, 127)):
        program.chmod(0o755)
        run = scene.start(f"run_dir=runs/{code}", "-n", "2", *words, "--", "./program")
        scene.bell.wait()
        change()
        scene.gate.open()
        assert run.wait() == code
        (cause,) = scene.in_dir(run, f"runs/{code}").report["attempts"][0]["causes"]
        assert "cannot be started" in cause["message"]
        assert "./program" in run.err
        assert cause["pid"] is None
        assert "pid" not in run.err
        (ended,) = [r["event"]["data"] for r in run.journal[1:] if _is_exit(r)]
        assert ended["pid"] is None


def test_D7_one_failure_restarts_the_whole_group(scene):
    """Rank 1 fails once; rank 0, though in good health, is started anew with it."""
    script = (
        'echo "$TORCHELASTIC_RESTART_COUNT $RANK $$" >"$BELL"; read x <"$GATE"; '
        '[ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ]'
    )
    one = 'if [ "$TORCHELASTIC_RESTART_COUNT$RANK" = 00 ]; then echo "0 0 $$" >"$BELL"; '
    one += 'exec sleep "$SLEEP"; fi; '
    run = scene.start("-n", "2", "spec.max_restarts=1", "--", "sh", "-c", one + script)
    before = sorted(line.split() for line in scene.bell.wait(2))
    run.enters("HEALTHY")
    scene.gate.open()
    after = sorted(line.split() for line in scene.bell.wait(2))
    assert [(a, r) for a, r, _ in before + after] == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    assert len({pid for _, _, pid in before + after}) == 4
    scene.gate.open(2)
    assert run.wait() == 0
    assert [c["rank"] for c in causes(run, 0)] == [1]
    assert causes(run, 1) == []


MEET = """\
import os, socket
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    listener = socket.create_server(address)
    for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
        listener.accept()[0].send(os.environ["TORCHELASTIC_RUN_ID"].encode())
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    assert peer.recv(100).decode() == os.environ["TORCHELASTIC_RUN_ID"]
"""


def test_F3_runs_side_by_side(scene):
    """Each has a meeting place of its own, and its ranks meet their own."""
    scene.write("meet.py", MEET)
    runs = [scene.start("-n", "2", f"run_id=r{n}", "meet.py") for n in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    for n in range(3):
        assert scene.run("-n", "2", f"run_id=s{n}", "meet.py").code == 0


def test_F5_no_name_is_looked_up(scene):
    """Name services may take half a minute; one node needs none."""
    scene.write(
        "sitecustomize.py",
        "import os, socket\n"
        "def never(*args, **kwargs):\n"
        "    os.write(2, b'looked up a name\\n')\n"
        "    os._exit(99)\n"
        "for name in ('getfqdn', 'gethostbyname', 'gethostbyname_ex', 'gethostbyaddr',\n"
        "             'getaddrinfo', 'getnameinfo'):\n"
        "    setattr(socket, name, never)\n",
    )
    run = scene.run("-n", "2", "--", "true", env={"PYTHONPATH": str(scene.folder)})
    assert run.code == 0, run.err


def test_the_journal_ends_with_the_run(scene):
    run = scene.run("-n", "2", "--", "true")
    header, *records = run.journal
    assert header["format"] == 1
    assert "worker_lost" in header["machine"]["transitions"]
    assert [r["seq"] for r in records] == list(range(1, len(records) + 1))
    assert run.path == ["INIT", "JOINING", "STARTING", "HEALTHY", "SETTLING", "SUCCEEDED"]


LIMIT = 'ulimit -f $LIMIT; exec "$0" "$@"'


def limited(scene, blocks: int, *words: str):
    """A run that may write no file longer than so many blocks of 512 bytes."""
    argv = ["sh", "-c", LIMIT, sys.executable, "-m", "elastic_fsm", "run"]
    return scene.run(*words, argv=argv, env={"LIMIT": str(blocks)})


def test_a_journal_that_cannot_be_written(scene):
    """It warns once, and the run goes on as if nothing had happened."""
    run = limited(scene, 60, "spec.max_restarts=30", "--", "sh", "-c", "exit 3")
    assert run.code == 3
    assert run.err.count("journal.jsonl cannot be written, the run goes on") == 1
    assert "Traceback" not in run.err
    assert "31 attempts" in run.err


def test_a_report_that_cannot_be_written_is_not_named(scene):
    in_its_way = 'mkdir "$(dirname "$TORCHELASTIC_ERROR_FILE")/../../report.part"'
    run = scene.run("--", "sh", "-c", in_its_way)
    assert run.code == 0
    assert "the report cannot be written: " in run.err
    assert "report.json" not in run.err
    assert "journal.jsonl" in run.err


def test_no_room_for_the_run(scene):
    run = limited(scene, 1, "--", "true")
    assert run.code == 2
    assert "the run directory cannot be written" in run.err
    assert "Traceback" not in run.err


def test_too_few_descriptors(scene):
    """Where the limit falls later: it says what it lacks, and leaves nothing behind."""
    words = ["-n", "16", "spec.max_restarts=1", "--", "sh", "-c", AT_GATE + "; exit 3"]
    run = scene.start(*words)
    scene.bell.wait(16)
    run.enters("HEALTHY")
    resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (30, 30))
    scene.gate.open()
    assert run.wait() == 70
    assert "Traceback" not in run.err
    assert "Too many open files" in run.report["error"]


FILLS = "import itertools\nfor n in itertools.count():\n    print(n, 'x' * 500, flush=True)\n"


def test_a_disk_that_is_full_is_named_as_the_cause(scene):
    """The traceback that would tell it went where there was no room for it."""
    within = scene.small_disk("full", "size=1m")
    scene.write("fill.py", FILLS)
    words = ["run_dir=full", "logs=files", "--", scene.python, "fill.py"]
    run = scene.run(*words, argv=[*within, scene.python, "-m", "elastic_fsm", "run"])
    assert run.code == 1, run.err
    assert re.search(r"the disk of \S*/attempt_0/0 is full, what it wrote last is lost", run.err)

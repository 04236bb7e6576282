"""The journals of real agents: of one that was killed, of one that is alive, of plugins."""

from __future__ import annotations

import json
import sys

import pytest
from journal_checks import check_all_below

from elastic_fsm.journal_reader import read_journal

pytestmark = pytest.mark.slow

RING = ("--", "sh", "-c", "echo up >$BELL; exec sleep $SLEEP")


def test_an_agent_is_killed_in_the_middle_of_a_run(scene):
    """The journal up to the last event is readable; status and explain say that it died."""
    run = scene.start("-n", "2", "run_id=killed", *RING)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    everybody = scene.watch()
    run.signal("SIGKILL")
    run.wait()
    everybody.ended()
    journal = read_journal(run.node)
    assert not journal.torn
    assert not journal.final
    assert journal.records[-1]["dest"] == "HEALTHY"
    status = scene.run("elastic_runs", verb="status")
    assert status.code == 0
    assert "agent died in HEALTHY" in status.out
    (told,) = json.loads(scene.run("--json", verb="status").out)
    assert told["condition"] == "agent died"
    explained = scene.run("elastic_runs/latest", verb="explain").out
    assert f"The agent (pid {run.pid}) died" in explained
    assert "The last it wrote was that the run was in HEALTHY since" in explained
    assert "no difference" in scene.run("elastic_runs/latest", verb="replay").out


def test_a_run_is_looked_at_while_it_is_alive(scene):
    run = scene.start("-n", "2", *RING)
    scene.bell.wait(2)
    run.enters("HEALTHY")
    (told,) = json.loads(scene.run("--json", verb="status").out)
    assert (told["condition"], told["state"], told["pid"]) == ("running", "HEALTHY", run.pid)
    assert told["workers_alive"] == 2
    assert f"under way (agent's pid {run.pid}): HEALTHY since" in scene.run(verb="explain").out
    run.signal("SIGTERM")
    assert run.wait() == 143
    (told,) = json.loads(scene.run("--json", verb="status").out)
    assert (told["condition"], told["state"]) == ("ended", "STOPPED")


def test_two_crashes_and_the_end_are_told_with_the_workers_last_words(scene):
    scene.write(
        "train.py",
        "import os\n"
        "count = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        "if count < 2 and os.environ['RANK'] == '1':\n"
        "    raise SystemExit(f'the loss is not a number, {count}')\n"
        "if count < 2:\n"
        "    import time; time.sleep(60)\n",
    )
    run = scene.run("-n", "2", "spec.max_restarts=2", "train.py")
    assert run.code == 0
    explained = scene.run(verb="explain").out
    assert "SUCCEEDED, exit code 0" in explained
    assert "2 of 2 restarts spent" in explained
    assert "It was restarted 2 times:" in explained
    assert "| the loss is not a number, 0" in explained
    assert "| the loss is not a number, 1" in explained


def test_a_run_with_plugins_is_replayed_from_another_folder(scene):
    scene.write(
        "job/tolerance.py",
        "from elastic_fsm import condition\n"
        "@condition\n"
        "def exit_was(event, facts, code):\n"
        "    return event.data['exit_code'] == code\n",
    )
    scene.write(
        "job/job.yaml",
        "plugins: [tolerance]\n"
        "machine:\n"
        "  transitions:\n"
        "    tolerated:\n"
        "      trigger: worker_exited\n"
        "      source: [STARTING, HEALTHY]\n"
        "      dest: STOPPING\n"
        "      conditions: [{exit_was: 75}]\n"
        "      priority: 5\n",
    )
    run = scene.run("-c", "job/job.yaml", "-n", "1", "--", "sh", "-c", "exit 75")
    assert run.path[-2:] == ["STOPPING", "STOPPED"]
    replayed = scene.run(verb="replay")
    assert replayed.code == 0, replayed.err
    assert "no difference" in replayed.out


SECRET_JOB = """
spec: {env: {HF_TOKEN: SECRETAAA}}
machine:
  states:
    SUCCEEDED:
      on_enter:
        - run_command:
            argv: [sh, -c, 'echo "got $*"; echo done', sh, --token, SECRETBBB, --pwd=S4,
                   "https://u:SECRETCCC@h/x", SECRETAAA]
            name: tell
"""


def test_no_file_of_a_run_holds_a_secret_and_the_journal_is_replayed(scene):
    scene.write("job.yaml", SECRET_JOB)
    command = ("--", "sh", "-c", 'echo "$HF_TOKEN" "$@"', "sh", "--api-key", "SECRETDDD")
    run = scene.run("-c", "job.yaml", "logs=console", *command)
    assert run.code == 0
    assert "SECRETAAA --api-key SECRETDDD" in run.out + run.err
    assert "got --token SECRETBBB --pwd=S4 https://u:SECRETCCC@h/x SECRETAAA" in run.out + run.err
    files = [path for path in run.node.rglob("*") if path.is_file()]
    assert {"journal.jsonl", "run.yaml"} <= {path.name for path in files}
    for path in files:
        text = path.read_text()
        assert "SECRET" not in text, path
        assert "S4" not in text, path
    journal = read_journal(run.node)
    (action,) = next(r["actions"] for r in journal.records if r.get("dest") == "SUCCEEDED")
    assert "'--token', '***', '--pwd=***'" in action
    assert "no difference" in scene.run(verb="replay").out
    assert scene.run(verb="explain").code == 0
    assert "run_command" in scene.run("--run", "elastic_runs/latest", verb="graph").out


def test_a_saved_run_is_run_again(scene):
    words = ("a=b", "", "${x}", "--lr", "1e3")
    scene.write("show.py", "import sys; print(sys.argv[1:])\n")
    run = scene.run("logs=console", "run_id=first", "show.py", *words)
    told = f"[default0]: {list(words)}"
    assert told in run.out + run.err
    saved = run.node / "run.yaml"
    again = scene.run("-c", str(saved), "run_id=second")
    assert again.code == 0, again.err
    assert told in again.out + again.err


def test_a_changed_line_is_found_by_the_check_that_all_tests_here_go_through(scene):
    """Else the check could be one that never fails."""
    run = scene.run("-n", "1", "--", "true")
    path = run.node / "journal.jsonl"
    assert check_all_below(scene.folder) == 1
    text = path.read_text()
    path.write_text(text.replace('"JOINING","dest":"STARTING"', '"JOINING","dest":"HEALTHY"'))
    with pytest.raises(AssertionError, match="dest"):
        check_all_below(scene.folder)
    path.write_text(text.replace('"outcome":"step"', '"outcome":"stepped"', 1))
    with pytest.raises(AssertionError):
        check_all_below(scene.folder)
    path.write_text(text)


def test_a_run_id_that_is_used_again_keeps_the_earlier_journal(scene):
    words = ("-n", "1", "run_id=again", "--", sys.executable, "-c", "pass")
    scene.run(*words)
    run = scene.run(*words)
    assert [read_journal(run.node / name).final for name in ("journal.0.jsonl", "journal.jsonl")]
    assert "SUCCEEDED" in scene.run(str(run.node / "journal.0.jsonl"), verb="explain").out

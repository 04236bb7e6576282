"""The workers' output: files by attempt and rank, and what the console shows of them."""

from __future__ import annotations

import os
import sys

import pytest

import elastic_fsm
from elastic_fsm.logs.console import Console

pytestmark = pytest.mark.slow

SPEAK = 'echo "out $RANK"; echo "err $RANK" >&2'


def tree(folder) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


def test_H5_the_layout(scene):
    run = scene.run("-n", "2", "run_id=mine", "--", "sh", "-c", SPEAK)
    assert run.code == 0
    names = {"report.json", "journal.jsonl", "run.yaml", "agent.pid"}
    logs = {f"attempt_0/{rank}/std{s}.log" for rank in (0, 1) for s in ("out", "err")}
    assert tree(run.node) == names | logs
    for rank in (0, 1):
        assert run.log(rank) == f"out {rank}\n"
        assert run.log(rank, stream="stderr") == f"err {rank}\n"
    latest = scene.folder / "elastic_runs" / "latest"
    assert os.readlink(latest) == "mine"


def test_H5_attempts_are_apart(scene):
    script = SPEAK + '; [ "$TORCHELASTIC_RESTART_COUNT" = 2 ] || exit 3'
    run = scene.run("spec.max_restarts=2", "--", "sh", "-c", script)
    assert run.code == 0
    assert [run.log(attempt=n) for n in range(3)] == ["out 0\n"] * 3


def test_H5_a_run_id_used_again_keeps_everything(scene):
    words = ["run_id=mine", "spec.max_restarts=1", "--", "sh", "-c", SPEAK + "; exit 3"]
    contents = {}
    for number in range(3):
        run = scene.run(*words)
        assert run.code == 3
        numbers = [a["attempt"] for a in run.report["attempts"]]
        assert numbers == [2 * number, 2 * number + 1]
        for name, text in contents.items():  # nothing has changed but for the names
            assert text in {p.read_text() for p in run.node.rglob("*") if p.is_file()}, name
        contents |= {str(p): p.read_text() for p in run.node.rglob("*.json*")}
    for stem, suffix in (("journal", "jsonl"), ("report", "json"), ("run", "yaml")):
        names = {f"{stem}.0.{suffix}", f"{stem}.1.{suffix}", f"{stem}.{suffix}"}
        assert {path.name for path in run.node.glob(f"{stem}.*")} == names
    assert len(list(run.node.glob("attempt_*"))) == 6


def test_H5_the_link_follows_the_last_run(scene):
    latest = scene.folder / "elastic_runs" / "latest"
    for name in ("a", "b", "a"):
        scene.run(f"run_id={name}", "--", "true")
        assert latest.resolve().name == name


def test_another_run_dir(scene):
    run = scene.run("run_dir=deep/er", "run_id=x", "--", "true")
    assert run.code == 0
    assert (scene.folder / "deep" / "er" / "latest" / run_node(scene) / "report.json").exists()
    assert not (scene.folder / "elastic_runs").exists()


def run_node(scene) -> str:
    (node,) = (scene.folder / "deep" / "er" / "x").iterdir()
    return node.name


def test_the_console_shows_whole_lines_with_a_prefix(scene):
    run = scene.run("-n", "2", "--", "sh", "-c", SPEAK)
    assert sorted(run.out.splitlines()) == ["[default0]: out 0", "[default1]: out 1"]
    assert {"[default0]: err 0", "[default1]: err 1"} <= set(run.err.splitlines())


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["logs.prefix="], ["out 0", "out 1"]),
        (["logs.prefix='{local_rank}|{rank}|{role}|{node_rank}> '"], None),
        (["logs.console_ranks=[1]"], ["[default1]: out 1"]),
        (["logs.console_ranks=[]"], []),
        (["logs=files"], []),
    ],
)
def test_H4_prefix_and_ranks(scene, words, lines):
    run = scene.run("-n", "2", *words, "--", "sh", "-c", SPEAK)
    assert run.code == 0, run.err
    expected = [f"{n}|{n}|default|0> out {n}" for n in (0, 1)] if lines is None else lines
    assert sorted(run.out.splitlines()) == expected
    assert [run.log(rank) for rank in (0, 1)] == ["out 0\n", "out 1\n"]


def test_H4_the_prefix_is_the_agents_whatever_the_workers_are_told(scene):
    words = ["logs.prefix='[{node_rank}] '", "spec.env.GROUP_RANK=77"]
    assert scene.run(*words, "--", "sh", "-c", SPEAK).out == "[0] out 0\n"


def test_H4_the_prefix_knows_the_host(scene):
    run = scene.run('logs.prefix="{host}:{rank}: "', "--", "sh", "-c", SPEAK)
    assert run.out == f"{run.report['host']}:0: out 0\n"


def test_console_only_keeps_nothing(scene):
    run = scene.run("-n", "2", "logs=console", "--", "sh", "-c", SPEAK)
    assert sorted(run.out.splitlines()) == ["[default0]: out 0", "[default1]: out 1"]
    assert not {name for name in tree(run.node) if name.endswith(".log")}


def test_console_only_still_reports_the_last_lines(scene):
    run = scene.run("logs=console", "--", "sh", "-c", "echo why >&2; exit 3")
    assert run.code == 3
    assert run.report["attempts"][0]["causes"][0]["stderr_tail"] == ["why"]


def test_a_line_without_an_end(scene):
    run = scene.run("-n", "2", "--", "sh", "-c", 'printf "out %s" $RANK')
    assert sorted(run.out.splitlines()) == ["[default0]: out 0", "[default1]: out 1"]
    assert run.out.endswith("\n")
    assert run.log(1) == "out 1"


def test_bytes_that_are_no_text(scene):
    run = scene.run("--", "printf", r"a\377\200b\000c\rd\n")
    # What follows a carriage return overwrites the line, so it gets the prefix again.
    assert run.out_bytes == b"[default0]: a\xff\x80b\x00c\r[default0]: d\n"
    assert (run.node / "attempt_0/0/stdout.log").read_bytes() == b"a\xff\x80b\x00c\rd\n"


def test_no_line_is_lost_cut_or_doubled(scene):
    code = "import os\nfor n in range(20000): print(os.environ['RANK'], n, 'x' * (n % 90))"
    run = scene.run("-n", "3", "logs.prefix=", "--", sys.executable, "-c", code)
    assert run.code == 0
    expected = [f"{rank} {n} {'x' * (n % 90)}" for rank in range(3) for n in range(20000)]
    assert sorted(run.out.splitlines()) == sorted(expected)


def test_H2_output_is_seen_at_once(scene):
    """Python would keep it in a buffer, since it does not write to a terminal."""
    code = "import os; print('early'); open(os.environ['GATE'], 'rb', buffering=0).read(1)"
    run = scene.start("--", sys.executable, "-c", code)
    run.shows("early")
    assert run.process.poll() is None
    scene.gate.open()
    assert run.wait() == 0


def test_a_console_that_goes_away(scene):
    """As with ``| head``: the run goes on, and ends well."""
    read, write = scene.pipe()
    script = 'read x <"$GATE"; seq 100000'
    run = scene.start("--", "sh", "-c", script, stdout=write)
    run.enters("HEALTHY")
    scene.close_fd(read)
    scene.close_fd(write)
    scene.gate.open()
    assert run.wait() == 0
    assert run.report["state"] == "SUCCEEDED"
    assert run.log().count("\n") == 100000


# -- terminals ---------------------------------------------------------------------------------

# Each line in one piece, since the agent speaks on the same terminal.
TALK = """\
import os, sys
print(f"terminals: {[os.isatty(n) for n in (0, 1, 2)]}")
print("\\x1b[31mred\\x1b[0m 10%\\r100%")
print(f"you said {input('say> ')}")
"""


@pytest.mark.parametrize("words", [[], ["logs=terminal"], ["logs=terminal", "-n", "2"]])
def test_a_worker_with_the_terminal(scene, words):
    """One worker alone, or local rank 0 where it is asked for: bars, colours and prompts."""
    code = f"import os\nif os.environ['RANK'] == '0':\n exec({TALK!r})\n"
    run = scene.terminal(*words, "--", sys.executable, "-c", code)
    run.shows("say> ")
    os.write(run.keyboard, b"hello\n")
    assert run.wait() == 0
    assert "terminals: [True, True, True]" in run.out
    assert "\x1b[31mred\x1b[0m 10%\r100%" in run.out
    assert "you said hello" in run.out
    assert "[default0]: " not in run.out
    if "-n" in words:
        assert run.log(1) == ""


def test_several_workers_on_a_terminal(scene):
    """They write to files, the console has prefixes, and a status line at the bottom."""
    script = SPEAK + '; [ -t 1 ] && echo tty; read x <"$GATE"'
    run = scene.terminal("-n", "2", "--", "sh", "-c", script, env={"TERM": "xterm"})
    run.shows(r"\[default1\]: out 1")
    run.shows("HEALTHY · 2/2 workers · 0 restarts left")
    scene.gate.open(2)
    assert run.wait() == 0
    assert "tty" not in run.out


def test_J1_one_rank_has_the_keyboard(scene):
    """The others read the end of the file; when the reader leaves, the group ends."""
    code = (
        "import os, sys\n"
        "line = sys.stdin.readline()\n"
        "open(os.environ['BELL'], 'w').write(f\"{os.environ['RANK']} {line!r}\\n\")\n"
        "if os.environ['RANK'] == '0': sys.exit(1)\n"
        "open(os.environ['GATE'], 'rb').read(1)\n"
    )
    run = scene.terminal("-n", "3", "spec.stdin=0", "--", sys.executable, "-c", code)
    assert sorted(scene.bell.wait(2)) == ["1 ''", "2 ''"]
    os.write(run.keyboard, b"quit\n")
    assert scene.bell.wait() == ["0 'quit\\n'"]
    assert run.wait() == 1
    (attempt,) = run.report["attempts"]
    assert [c["rank"] for c in attempt["causes"]] == [0]
    assert sorted(c["rank"] for c in attempt["consequences"]) == [1, 2]


def test_closed_streams_lead_nowhere(scene):
    """With ``>&-`` the number of a stream is free; nothing of the run's own may take it."""
    argv = ["sh", "-c", '"$0" "$@" <&- >&- 2>&-', sys.executable, "-m", "elastic_fsm", "run"]
    run = scene.run("-n", "2", "spec.stdin=0", "--", "sh", "-c", SPEAK + "; cat", argv=argv)
    assert run.code == 0
    assert (run.node / "agent.pid").read_text().strip().isdigit()
    assert run.log(1) == "out 1\n"
    assert run.log(1, stream="stderr") == "err 1\n"


def test_in_the_background_of_a_shell_the_terminal_is_not_touched(scene):
    """Its keys are the shell's: a worker that read them would steal what is typed."""
    code = "import os; print(os.isatty(0), os.isatty(1))"
    agent = f"{sys.executable} -m elastic_fsm run -- {sys.executable} -c '{code}'"
    run = scene.terminal(argv=["setsid", "--ctty", "--wait", "bash", "-mc", f"{agent} & wait"])
    assert run.wait() == 0
    assert "[default0]: False False" in run.out


def test_the_status_line_changes_with_the_state_and_not_a_second_later(scene, monkeypatch):
    shown = []

    class Watched(Console):
        def status(self, text):
            shown.append(text().split()[0] if callable(text) else text)

    monkeypatch.setattr("elastic_fsm.launch.Console", Watched)
    spec = {"entrypoint": "true", "local_world_size": 2}
    run_dir = str(scene.folder / "runs")
    assert elastic_fsm.run({"spec": spec, "run_dir": run_dir}).exit_code == 0
    states = ["INIT", "JOINING", "STARTING", "HEALTHY", "SETTLING", "SUCCEEDED", None]
    assert list(dict.fromkeys(shown)) == states

"""Commands as actions: what they are given, how they end, and that none is left."""

from __future__ import annotations

import json
import os
import sys

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.loop import Loop
from elastic_fsm.problems import BadInput
from elastic_fsm.sources.base import Command
from elastic_fsm.sources.commands import Commands
from elastic_fsm.sources.exits import Exits
from elastic_fsm.sources.output import Output
from elastic_fsm.testing import Scenario


class Shop:
    """A runner of commands with a real clock and real processes."""

    def __init__(self) -> None:
        self.loop = Loop(SystemClock())
        self.exits = Exits(self.loop)
        self.said: list[str] = []
        self.commands = Commands(self.loop, self.exits, self.said.append)

    def run(self, *argv: str, timeout=30.0, name="it", given=b"{}", **options) -> None:
        self.commands.run(Command(name, argv, given, timeout, **options))

    def next_event(self):
        event = self.loop.next_event()
        return event.name, dict(event.data)

    def close(self) -> None:
        self.commands.close()
        self.exits.close()
        self.loop.close()


@pytest.fixture
def shop():
    made = Shop()
    yield made
    made.close()
    assert made.commands.pids == set()


def ended(code: int, reason: str = "", last_line: str = "") -> tuple[str, dict]:
    name = "command_failed" if code or reason else "command_finished"
    data = {"name": "it", "exit_code": code, "reason": reason, "last_line": last_line}
    return name, data


def test_a_command_that_is_done(shop):
    shop.run("true")
    assert len(shop.commands.pids) == 1
    assert shop.next_event() == ended(0)
    assert shop.commands.pids == set()


@pytest.mark.parametrize(
    ("argv", "event"),
    [
        (["false"], ended(1)),
        (["sh", "-c", "kill -9 $$"], ended(-9)),
        (
            ["./nowhere", "x"],
            ended(127, "cannot be started: No such file or directory: ./nowhere"),
        ),
        (["/etc"], ended(126, "cannot be started: Permission denied: /etc")),
    ],
)
def test_a_command_that_fails(shop, argv, event):
    shop.run(*argv)
    assert shop.next_event() == event


def test_it_finds_the_event_on_its_standard_input(shop, tmp_path):
    """More than a pipe would hold, and the loop does not wait for a reader."""
    given = b"x" * 200_000
    shop.run("sh", "-c", f"cat > {tmp_path}/seen", given=given)
    assert shop.next_event() == ended(0)
    assert (tmp_path / "seen").read_bytes() == given


def test_no_shell_reads_its_words(shop, tmp_path):
    code = "import sys; open(sys.argv[1], 'w').write(repr(sys.argv[2:]))"
    shop.run(sys.executable, "-c", code, f"{tmp_path}/words", "$HOME; *", "", "a b")
    assert shop.next_event() == ended(0)
    assert (tmp_path / "words").read_text() == "['$HOME; *', '', 'a b']"


def test_it_has_the_agents_environment_and_what_is_laid_over_it(shop, tmp_path, monkeypatch):
    monkeypatch.setenv("FROM_THE_AGENT", "a")
    shop.commands.env["LAID_OVER"] = "b"
    shop.run("sh", "-c", f"echo $FROM_THE_AGENT$LAID_OVER > {tmp_path}/env")
    assert shop.next_event() == ended(0)
    assert (tmp_path / "env").read_text() == "ab\n"


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(shop, tmp_path):
    fifo = tmp_path / "held"
    shop.run("mkfifo", str(fifo))
    assert shop.next_event() == ended(0)
    shop.run("sh", "-c", f"sleep 600 > {fifo} & wait", timeout=0.05)
    with fifo.open() as held:  # opened once the sleeper holds the other end
        assert shop.next_event() == ended(-9, "took longer than 0.05 s")
        assert held.read() == ""  # and ended by its death


def test_what_a_command_leaves_behind_is_killed(shop, tmp_path):
    fifo = tmp_path / "held"
    shop.run("mkfifo", str(fifo))
    assert shop.next_event() == ended(0)
    shop.run("sh", "-c", f"sleep 600 > {fifo} & head -c 0 {fifo}; true", timeout=None)
    with fifo.open() as held:
        assert shop.next_event() == ended(0)
        assert held.read() == ""


def test_what_it_writes_is_passed_on_in_whole_lines_and_the_last_is_told(shop):
    shop.run("sh", "-c", "printf a; printf 'b\\nno host\\n\\n' >&2; printf '  rest'; exit 3")
    assert shop.next_event() == ended(3, last_line="rest")
    assert "".join(shop.said) == "ab\nno host\n\n  rest"


def test_a_command_that_writes_more_than_a_pipe_holds(shop):
    shop.run("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo done")
    assert shop.next_event() == ended(0, last_line="done")
    assert sum(text.count("x") for text in shop.said) == 300000


def test_what_a_command_leaves_behind_cannot_hold_its_output(shop):
    """A daemon of its own keeps the pipe open."""
    shop.run("sh", "-c", "setsid sleep 0.2 & echo up; exit 1")
    assert shop.next_event() == ended(1, last_line="up")


def test_what_a_command_leaves_behind_cannot_keep_the_loop(shop, monkeypatch):
    """It writes faster than anybody reads."""
    blocks = iter([b"y\n" * 1000] * 100)
    output = Output(shop.loop, shop.said.append)
    output.is_held()
    with monkeypatch.context() as patched:
        patched.setattr("os.read", lambda descriptor, size: next(blocks))
        output.close()
    assert output.last_line == "y"


def test_no_descriptor_is_left_open(shop):
    shop.run("true")
    shop.next_event()
    before = os.listdir("/proc/self/fd")
    for argv in (["true"], ["./nowhere"], ["sh", "-c", "echo x"]):
        shop.run(*argv)
        shop.next_event()
    assert os.listdir("/proc/self/fd") == before


def test_one_that_cannot_be_started_for_want_of_a_pipe(shop, monkeypatch):
    def no_more():
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("os.pipe", no_more)
        shop.run("true")
    assert shop.next_event() == ended(126, "cannot be started: Too many open files: true")


def test_several_at_once(shop):
    for name in ("a", "b", "c"):
        shop.run("true", name=name)
    assert {shop.next_event()[1]["name"] for _ in range(3)} == {"a", "b", "c"}


def test_at_the_end_what_runs_is_killed_and_the_last_are_waited_for(tmp_path):
    shop = Shop()
    shop.run("sleep", "600", timeout=None)
    shop.run("sh", "-c", f"cat; echo told > {tmp_path}/last", is_last=True)
    shop.close()
    shop.commands.close()
    assert (tmp_path / "last").read_text() == "told\n"
    assert shop.commands.pids == set()


def test_a_last_one_is_not_waited_for_longer_than_its_timeout():
    shop = Shop()
    shop.run("sleep", "600", timeout=0.05, is_last=True)
    shop.close()
    assert shop.commands.pids == set()


def test_a_last_one_without_a_limit_has_one_that_is_its_own(monkeypatch):
    monkeypatch.setattr("elastic_fsm.sources.commands._LAST_SECONDS", 0.05)
    shop = Shop()
    shop.run("sleep", "600", timeout=None, is_last=True)
    shop.run("sleep", "0.1", timeout=30.0, is_last=True, name="another")
    shop.commands.close()
    assert [event.data for event in shop.loop.left()] == [
        ended(-9, "took longer than 0.05 s")[1], {**ended(0)[1], "name": "another"},
    ]  # fmt: skip
    shop.close()
    assert shop.commands.pids == set()


def test_where_files_without_a_name_are_made_otherwise(shop, monkeypatch, tmp_path):
    monkeypatch.delattr("os.memfd_create")
    shop.run("sh", "-c", f"cat > {tmp_path}/seen", given=b"x")
    assert shop.next_event() == ended(0)
    assert (tmp_path / "seen").read_bytes() == b"x"


# -- as an action, in virtual time -----------------------------------------------------------------

TELL = {"run_command": {"argv": ["/opt/tell", "ops"], "timeout": "10s"}}
MAIL = {"run_command": {"argv": ["mail"]}}
REACT = {
    "told": {"trigger": "command_finished", "source": ["HEALTHY"]},
    "not_told": {
        "trigger": "command_failed",
        "source": ["HEALTHY"],
        "dest": "STOPPING",
    },
}


def played(*, ends=None, action=TELL, transitions=REACT):
    states = {"HEALTHY": {"on_enter": [action]}}
    run = Scenario("elastic", workers=1, machine={"states": states, "transitions": transitions})
    run.commands.ends = ends or {}
    run.exits(0, at=100)
    run.play()
    return run


def test_it_is_given_the_event():
    run = played()
    (command,) = run.commands.calls
    assert command.name == "tell"
    assert command.given.endswith(b"\n")
    event = json.loads(command.given)
    assert (event["name"], event["state"], event["attempt"]) == ("workers_started", "HEALTHY", 0)
    assert event["worker_state"] == "HEALTHY"
    assert event["data"]["pids"] == [1001]


def test_it_is_given_whatever_the_event_holds():
    states = {"REFORMING": {"on_enter": [TELL]}}
    run = Scenario("elastic", workers=1, machine={"states": states})
    run.post("membership_changed", at=5, reason={(0, 1): float("nan")})
    run.signal("SIGTERM", at=100)
    run.play()
    (command,) = run.commands.calls
    assert json.loads(command.given)["data"] == {"reason": {"(0, 1)": "nan"}}


@pytest.mark.parametrize(
    ("ends", "transition"),
    [
        ({}, "told"),
        ({"tell": (3.0, 0)}, "told"),
        ({"tell": (3.0, 2)}, "not_told"),
        ({"tell": (11.0, 0)}, "not_told"),
    ],
)
def test_its_end_is_an_event(ends, transition):
    run = played(ends=ends)
    assert transition in [name for name, _ in run.path]


def test_nobody_has_to_react():
    run = played(transitions={}, ends={"tell": (1.0, 3)})
    assert run.path[-1] == ("settled", "SUCCEEDED")
    assert [r["outcome"] for r in run.records if r["event"]["name"] == "command_failed"] == [
        "ignored"
    ]


def test_only_one_on_the_way_into_a_final_state_is_waited_for():
    states = {"HEALTHY": {"on_enter": [TELL]}, "SUCCEEDED": {"on_enter": [MAIL]}}
    run = Scenario("elastic", workers=1, machine={"states": states})
    run.exits(0, at=100)
    run.play()
    told = [(command.name, command.is_last) for command in run.commands.calls]
    assert told == [("tell", False), ("mail", True)]


def test_a_name_of_its_own():
    run = played(action={"run_command": {"argv": ["x"], "name": "mail"}})
    assert run.commands.calls[0].name == "mail"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (None, "needs the parameter 'argv'"),
        ("echo told", "argv must be a list of texts"),
        ({"argv": []}, "argv must be a list of texts"),
        ({"argv": ["echo", 1]}, "argv must be a list of texts"),
        ({"argv": ["a\0b"]}, "argv must be a list of texts"),
        ({"argv": ["x"], "timeout": "soon"}, "is not a duration"),
        ({"argv": ["x"], "name": 3}, "name must be text"),
        ({"argv": ["x"], "timeuot": 3}, "did you mean 'timeout'?"),
    ],
)
def test_bad_parameters_are_found_at_load(arguments, what):
    action = {"run_command": arguments} if arguments is not None else "run_command"
    with pytest.raises(BadInput) as found:
        played(action=action)
    assert what in str(found.value)

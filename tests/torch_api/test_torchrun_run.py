"""What torchrun's words need of a run: handlers, logs and event records by configuration."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from elastic_fsm.banner import banner
from elastic_fsm.config import compose
from elastic_fsm.dry_run import describe
from elastic_fsm.group import WorkerGroup, WorkerSpec
from elastic_fsm.logs.choice import make_logs_specs
from elastic_fsm.logs.specs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std
from elastic_fsm.preparing import prepare
from elastic_fsm.problems import BadInput
from elastic_fsm.rendezvous.choice import nodes_in_words, warn_of_loopback
from elastic_fsm.rendezvous.errors import RendezvousConnectionError
from elastic_fsm.rendezvous.handler_registry import rendezvous_handler_registry
from elastic_fsm.rendezvous.later import make_handler
from elastic_fsm.rendezvous.single import SingleNodeHandler
from elastic_fsm.server import teeing
from elastic_fsm.server.teeing import Teeing
from elastic_fsm.testing import Scenario


def problems(*words):
    with pytest.raises(BadInput) as caught:
        prepare(compose(words), ["true"])
    return str(caught.value)


# -- the rendezvous ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rendezvous.max_nodes=2"], "rendezvous=standalone is for one node, not 2"),
        (["rendezvous.node_rank=0"], "only rendezvous=static has fixed numbers"),
        (["rendezvous.name=c10"], "unknown rendezvous 'c10'"),
        (["rendezvous=static", "rendezvous.max_nodes=2"], "this node has no number"),
        (["rendezvous=static"], "the nodes need a place to meet"),
        (["rendezvous=c10d", "rendezvous.max_nodes=2"], "the nodes need a place to meet"),
        (["rendezvous=c10d", "rendezvous.max_nodes=2"], "nodes that meet need the same run id"),
        (["rendezvous=c10d", "rendezvous.endpoint='h:x'"], "'h:x' is no host:port"),
        (["rendezvous=c10d", "rendezvous.endpoint='h:'"], "'h:' is no host:port"),
        (["rendezvous=c10d", "rendezvous.options.store_type=file"], "a file store needs"),
        (["spec.monitor_interval=0"], "spec.monitor_interval: 0.0 is too small"),
    ],
)
def test_nodes_that_cannot_meet(words, said):
    assert said in problems(*words)


def test_torch_is_missed_before_anything_starts(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "PyTorch's, which is not installed" in problems("rendezvous=c10d")


def test_numbers_of_nodes_in_words():
    assert nodes_in_words({"min_nodes": 1, "max_nodes": 1}) == "1 node"
    assert nodes_in_words({"min_nodes": 2, "max_nodes": 2}) == "2 nodes"
    assert nodes_in_words({"min_nodes": 1, "max_nodes": 4}) == "1 to 4 nodes"


@pytest.mark.parametrize(
    ("endpoint", "nodes", "warns"),
    [
        ("localhost:1", 2, True),
        ("127.0.0.5", 2, True),
        ("[::1]:29400", 2, True),
        ("localhost:1", 1, False),
        ("host0:1", 2, False),
    ],
)
def test_a_loopback_endpoint_is_warned_of(endpoint, nodes, warns):
    assert bool(warn_of_loopback({"endpoint": endpoint, "max_nodes": nodes})) == warns


class Counting(SingleNodeHandler):
    """Tells what was asked of it."""

    made: list[Counting] = []

    def __init__(self, parameters):
        super().__init__(parameters.run_id)
        self.parameters = parameters
        self.asked = []
        self.made.append(self)

    def get_backend(self):
        return self.parameters.backend

    def shutdown(self):
        self.asked.append("shutdown")
        raise RendezvousConnectionError("the store is gone")


@pytest.fixture
def backend():
    """The name of a backend of this test's own."""
    name = f"counting{len(rendezvous_handler_registry._registry)}"
    Counting.made = []
    rendezvous_handler_registry.register(name, Counting)
    yield name
    del rendezvous_handler_registry._registry[name]


def test_a_handler_is_made_with_all_that_was_said(backend):
    words = [
        f"rendezvous.name={backend}",
        "rendezvous.endpoint='h:1'",
        "rendezvous.min_nodes=2",
        "rendezvous.max_nodes=3",
        "rendezvous.options.join_timeout=9",
        "spec.local_addr=me",
        "run_id=j",
    ]
    prepared = prepare(compose(words), ["true"])
    handler = make_handler(prepared.values, prepared.run_id)
    assert Counting.made == []  # not before somebody wants to meet
    assert handler.num_nodes_waiting() == 0
    handler.shut_down()
    handler.next_rendezvous()
    (made,) = Counting.made
    given = made.parameters
    assert (given.endpoint, given.run_id, given.local_addr) == ("h:1", "j", "me")
    assert (given.min_nodes, given.max_nodes, given.config) == (2, 3, {"join_timeout": 9})
    handler.shut_down()  # what goes wrong there has nobody left to hear of it
    assert made.asked == ["shutdown"]


@pytest.mark.parametrize(
    ("words", "warns"),
    [
        ([], True),
        (["spec.master_addr=localhost"], True),
        (["spec.master_addr=far.away"], False),
        pytest.param(["rendezvous=c10d", "rendezvous.max_nodes=2"], False, marks=pytest.mark.torch),
        pytest.param(
            ["rendezvous=static", "rendezvous.max_nodes=2", "rendezvous.node_rank=1"],
            False,
            marks=pytest.mark.torch,
        ),
        pytest.param(
            ["rendezvous=static", "rendezvous.max_nodes=2", "rendezvous.node_rank=0"],
            True,
            marks=pytest.mark.torch,
        ),
    ],
)
def test_a_port_that_is_taken_is_warned_of_where_rank_0_is(words, warns, tmp_path):
    nodes = ["rendezvous.endpoint='h:1'", "run_id=j"] if len(words) > 1 else []
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        prepared = prepare(compose([*words, *nodes, f"spec.master_port={port}"]), ["true"])
        with_dir = SimpleNamespace(node=tmp_path)
        warning = f"\nwarning: workers cannot meet at port {port} of this host now: Address already"
        assert (warning in banner(prepared, with_dir)) == warns
    assert warning not in banner(prepared, with_dir)


def test_a_port_that_was_chosen_is_shown_by_a_dry_run():
    text = describe(prepare(compose(["spec.master_port=1234"]), ["true"]))
    assert "  MASTER_PORT=1234\n" in text
    assert "is chosen at each start" not in text
    text = describe(prepare(compose([]), ["true"]))
    assert "MASTER_PORT is chosen at each start" in text
    assert "MASTER_PORT=" not in text


def test_a_dry_run_says_that_ranks_are_agreed_on(backend):
    words = [f"rendezvous.name={backend}", "rendezvous.endpoint='h:1'", "run_id=j"]
    text = describe(prepare(compose([*words, "rendezvous.max_nodes=3"]), ["true"]))
    assert "1 to 3 nodes agree on ranks and addresses; shown is one that is alone" in text
    assert "agree" not in describe(prepare(compose([]), ["true"]))


def test_the_static_handler_gets_this_nodes_number():
    words = ["rendezvous=static", "rendezvous.endpoint='h:1'", "rendezvous.max_nodes=2"]
    values = compose([*words, "rendezvous.node_rank=1", "run_id=j"]).values
    assert make_handler(values, "j")._parameters.config == {"rank": 1}


RUNS = """
import sys
import elastic_fsm
from elastic_fsm.rendezvous.single import SingleNodeHandler

class Mine(SingleNodeHandler):
    def get_backend(self):
        return "mine"
    def shutdown(self):
        print("shut down")
        return super().shutdown()

elastic_fsm.rendezvous_handler_registry.register("mine", lambda p: Mine(p.run_id))
result = elastic_fsm.run({
    "rendezvous": {"name": "mine", "max_nodes": 1},
    "spec": {"entrypoint": "sh", "args": ["-c", sys.argv[1]]},
})
print(result.state)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 0", "shut down\nSUCCEEDED\n"),
        ("exit 3", "shut down\nFAILED\n"),
        ("kill $PPID; sleep $SLEEP", "STOPPED\n"),  # the others may go on
    ],
)
def test_a_run_ends_for_all_nodes_unless_this_one_is_told_to_stop(scene, command, said):
    script = scene.write("runs.py", RUNS)
    run = scene.run(str(script), command, argv=[scene.python])
    assert run.out.endswith(said)
    assert ("shut down" in run.out) == ("shut down" in said)


FAILS = """
import elastic_fsm

def fail(parameters):
    raise elastic_fsm.BadInput.of("no such place")

elastic_fsm.rendezvous_handler_registry.register("mine", fail)
elastic_fsm.run({"rendezvous": {"name": "mine"}, "spec": {"entrypoint": "true"}})
"""


@pytest.mark.slow
def test_a_rendezvous_that_fails_is_no_reason_for_more_restarts(scene):
    run = scene.run(str(scene.write("fails.py", FAILS)), argv=[scene.python])
    assert "JOINING -> FAILED [no_rendezvous] no rendezvous: BadInput: no such place" in run.err
    assert "max_restarts" not in run.err


@pytest.mark.slow
def test_agents_of_one_run_on_one_host_have_folders_of_their_own(scene):
    words = ["rendezvous.name=single", "run_id=j", "--", "sh", "-c"]
    first = scene.start(*words, "echo >$BELL; read _ <$GATE")
    scene.bell.wait()
    second = scene.run(*words, "true")
    scene.gate.open()
    assert (first.wait(), second.code) == (0, 0)
    journals = sorted(scene.folder.glob("elastic_runs/j/*/journal.jsonl"))
    assert len(journals) == 2
    assert journals[1].parent.name == f"{journals[0].parent.name}.2"


# -- logs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["logs.redirects=3"], "logs.redirects: logs.mode=tee has no use for it"),
        (["logs=files", "logs.log_dir=x"], "logs.log_dir: logs.mode=files has no use for it"),
        (["logs=torchrun", "logs.tee='5'"], "logs.tee: '5' names no streams"),
        (["logs=torchrun", "logs.specs=x"], "there are no logs specs called 'x'"),
    ],
)
def test_logs_that_cannot_be(words, said):
    assert said in problems(*words)


def made(*words):
    return make_logs_specs(compose(["logs=torchrun", *words]).values["logs"])


def test_logs_specs_of_the_configuration(tmp_path):
    words = ["logs.redirects='0:1'", "logs.tee='3'", "logs.local_ranks_filter=[0]"]
    found = made(*words, f"logs.log_dir={tmp_path}")
    assert found == DefaultLogsSpecs(str(tmp_path), {0: Std.OUT}, Std.ALL, {0})
    assert made("logs.specs=default", f"logs.log_dir={tmp_path}") == DefaultLogsSpecs(str(tmp_path))


class Mine(LogsSpecs):
    """A plug-in's."""

    def reify(self, envs):
        return LogsDest()

    @property
    def root_log_dir(self):
        return self._root_log_dir


def plugin(monkeypatch, kind):
    entry = SimpleNamespace(name="mine", load=lambda: kind)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])


def test_the_logs_specs_of_a_plug_in(monkeypatch):
    plugin(monkeypatch, Mine)
    words = ["logs=torchrun", "logs.specs=mine", "logs.tee='1'", "logs.log_dir=x"]
    prepare(compose(words), ["true"])
    found = make_logs_specs(compose(words).values["logs"])
    assert (type(found), found._tee, found.root_log_dir) == (Mine, Std.OUT, "x")


@pytest.mark.torch
def test_a_plug_in_made_of_torchs_class_gets_torchs_streams(monkeypatch, tmp_path):
    api = pytest.importorskip("torch.distributed.elastic.multiprocessing")
    plugin(monkeypatch, type("Theirs", (api.DefaultLogsSpecs,), {}))
    found = made("logs.specs=mine", "logs.tee='1'", f"logs.log_dir={tmp_path}")
    assert type(found._tee) is api.Std


class FakeConsole:
    """Never waits for anybody, and tells what was asked."""

    made: list[FakeConsole] = []

    def __init__(self, **ends):
        self.calls = []
        self.made.append(self)

    def start(self):
        self.calls.append("start")

    def follow(self, path, **how):
        self.calls.append(f"follow {path.name}")

    def finish(self, path):
        self.calls.append(f"finish {path.name}")

    def close(self, timeout):
        self.calls.append("close")


@pytest.fixture
def dest(tmp_path):
    path = str(tmp_path / "stdout.log")
    return LogsDest(stdouts={0: path}, stderrs={0: ""}, tee_stdouts={0: path})


@pytest.mark.parametrize("given", [True, False])
def test_one_console_serves_all_attempts_and_is_waited_for_at_the_end(monkeypatch, dest, given):
    monkeypatch.setattr(FakeConsole, "made", [])
    monkeypatch.setattr(teeing, "Console", FakeConsole)
    shown = Teeing(FakeConsole() if given else None)
    for _ in range(2):
        shown.attach(dest, {0: "[x]: "})
        shown.detach()
    (console,) = FakeConsole.made
    attempts = ["follow stdout.log", "finish stdout.log"] * 2
    assert [call for call in console.calls if call != "start"] == attempts
    shown.close()
    shown.close()
    assert console.calls.count("close") == (0 if given else 1)


def test_an_agent_lets_go_of_its_outputs_once_and_at_the_end():
    run = Scenario("elastic", max_restarts=1)
    run.exits(0, code=1, at=10)
    for rank in (0, 1):
        run.exits(rank, at=20)
    asked = []
    run.agent.outputs.detach = lambda: asked.append("detach")
    run.agent.outputs.close = lambda: asked.append("close")
    run.play()
    assert asked == ["detach", "close"]  # of the first attempt, and of the last with all


@pytest.mark.slow
def test_a_run_with_torchruns_logs(scene):
    words = ["logs=torchrun", "logs.tee='0:1'", "logs.redirects='1:3'", "logs.log_dir=logs"]
    words += ["logs.prefix='<{role}|{rank}|{local_rank}|{node_rank}> '", "-n", "2"]
    run = scene.run(*words, "--", "sh", "-c", "echo out $RANK; echo err $RANK >&2; exit $RANK")
    assert run.code == 1
    assert run.out == "<default|0|0|0> out 0\n"
    assert "\nerr 0\n" in run.err
    (node,) = scene.folder.glob("elastic_runs/*-*/*/")
    assert sorted(path.name for path in node.iterdir()) == [
        "agent.pid",
        "journal.jsonl",
        "report.json",
        "run.yaml",
    ]
    (attempt,) = scene.folder.glob("logs/*_*/attempt_0")
    assert (attempt / "0/stdout.log").read_text() == "out 0\n"
    assert (attempt / "1/stderr.log").read_text() == "err 1\n"
    (cause,) = json.loads((node / "report.json").read_text())["attempts"][0]["causes"]
    assert cause["stderr_tail"] == ["err 1"]
    assert "logs     logs\n" in run.err


@pytest.mark.slow
def test_a_log_folder_that_cannot_be_is_bad_input(scene):
    scene.write("plain", "")
    run = scene.run("logs=torchrun", "logs.log_dir=plain", "--", "true")
    assert run.code == 2
    assert "logs.log_dir: 'plain' is a file, not a folder" in run.err
    assert not (scene.folder / "elastic_runs").exists()
    run = scene.run("logs=torchrun", "logs.log_dir=/proc/nosuch", "--", "true")
    assert run.code == 2
    assert "logs.log_dir: cannot be used: [Errno 2]" in run.err


# -- event records -----------------------------------------------------------------------------


def recorded(run):
    lines = [line for line in run.err.splitlines() if line.startswith('{"name": "torchelastic')]
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_event_records_of_a_run(scene):
    command = ["sh", "-c", "test $TORCHELASTIC_RESTART_COUNT = 1"]
    words = ["spec.event_log_handler=console", "spec.max_restarts=1", "run_id=j", "-n", "1"]
    run = scene.run(*words, "--", *command)
    assert run.code == 0
    events = recorded(run)
    attempt = ["RENDEZVOUS", "ASSIGN_WORKER_RANKS", "START"]
    states = [event["metadata"]["state"] for event in events]
    assert states == [*attempt, *attempt, "SUCCEEDED", "SUCCEEDED"]
    assert [event["source"] for event in events[-2:]] == ["WORKER", "AGENT"]
    last = events[-1]["metadata"]
    assert (last["run_id"], last["agent_restarts"], last["role"]) == ("j", 1, "default")
    details = json.loads(last["metadata"])
    assert details == {"group_world_size": 1, "entry_point": "sh"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 4", [("WORKER", "FAILED", 4), ("AGENT", "SUCCEEDED", None)]),
        ("kill $PPID; sleep $SLEEP", [("AGENT", "FAILED", None)]),
    ],
)
def test_event_records_of_a_run_that_does_not_succeed(scene, command, expected):
    run = scene.run("spec.event_log_handler=console", "--", "sh", "-c", command)
    last = recorded(run)[-len(expected) :]
    found = [
        (
            e["source"],
            e["metadata"]["state"],
            json.loads(e["metadata"]["metadata"]).get("exit_code"),
        )
        for e in last
    ]
    assert found == expected


@pytest.mark.slow
def test_a_plain_run_loads_nothing_of_all_this(scene):
    code = (
        "import sys, elastic_fsm; elastic_fsm.run({'spec': {'entrypoint': 'true'}});"
        "slow = ('telemetry', 'spec_logs', 'logs.specs', 'over_handler', 'torch');"
        "print([m for m in sys.modules if m.endswith(slow) or '.telemetry' in m])"
    )
    assert scene.run("-c", code, argv=[scene.python]).out == "[]\n"


def test_groups_and_specs_know_the_new_values():
    spec = WorkerSpec("r", 1, entrypoint="x", duplicate_stdout_filters=["a"])
    assert WorkerGroup(spec).spec.duplicate_stdout_filters == ["a"]
    words = ["logs=torchrun", "logs.stdout_filters=[a,b]", "logs.stderr_filters=[c]"]
    prepared = prepare(compose(words), ["true"])
    assert prepared.spec.duplicate_stdout_filters == ["a", "b"]
    assert prepared.spec.duplicate_stderr_filters == ["c"]
    assert prepared.planner(Path("x")).node_dir is None


# -- the mirrors of torch's functions ----------------------------------------------------------

LAUNCHES = """
import sys
from elastic_fsm import ChildFailedError
from elastic_fsm.distributed.run import main

if __name__ == "__main__":
    try:
        main(sys.argv[1:])
        print("done")
    except ChildFailedError as error:
        print(sorted((rank, f.exitcode) for rank, f in error.failures.items()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--standalone", "--nproc-per-node=2", "work.py", "0"], "done\n"),
        (["work.py", "3"], "[(0, 3)]\n"),
        (["--run-path", "work.py", "0"], "done\n"),
        (["--run-path", "work.py", "4"], "[(0, 4)]\n"),
    ],
)
def test_main_launches_and_raises(scene, words, said):
    scene.write("work.py", "import sys; sys.exit(int(sys.argv[1]))")
    run = scene.run(str(scene.write("launches.py", LAUNCHES)), *words, argv=[scene.python])
    assert run.out == said


@pytest.mark.slow
def test_run_path_leaves_an_error_file(scene):
    scene.write("work.py", "raise ValueError('of mine')")
    run = scene.run("--run-path", "work.py", verb="torchrun")
    assert run.code == 1
    assert "ValueError: of mine" in run.err
    (file,) = Path(run.report["attempts"][0]["causes"][0]["error_file"]).parents[3].glob("*/*/0/*")
    assert json.loads(file.read_text())["message"]["message"] == "ValueError: of mine"


@pytest.mark.slow
def test_our_own_values_win_over_torchruns(scene):
    words = ["--set", "logs=files", "--set", "exit_code=final", "--no-python", "sh", "-c", "exit 7"]
    run = scene.run(*words, verb="torchrun")
    assert run.code == 7
    assert run.log() == ""


@pytest.mark.slow
def test_a_stop_signal_is_1_as_with_torchrun(scene):
    run = scene.start("--no-python", "sh", "-c", "echo >$BELL; sleep $SLEEP", verb="torchrun")
    scene.bell.wait()
    run.signal("SIGTERM")
    assert run.wait() == 1
    assert run.path[-1] == "STOPPED"


@pytest.mark.slow
def test_the_first_worker_has_our_standard_input(scene):
    reader, writer = scene.pipe()
    run = scene.start("--no-python", "cat", verb="torchrun", stdin=reader)

    os.write(writer, b"words\n")
    scene.close_fd(writer)
    assert run.wait() == 0
    assert run.out == "words\n"


@pytest.mark.slow
def test_two_runs_of_one_id_do_not_hinder_each_other(scene):
    words = ["--rdzv-id=j", "--no-python", "sh", "-c"]
    first = scene.start(*words, "echo >$BELL; read _ <$GATE", verb="torchrun")
    scene.bell.wait()
    second = scene.run(*words, "true", verb="torchrun")
    scene.gate.open()
    assert (first.wait(), second.code) == (0, 0)


DOCUMENTATION = Path(__file__).parents[2] / "docs" / "from_torchrun.md"
TYPED = re.findall(r"^\$ (.*)", DOCUMENTATION.read_text(), re.MULTILINE)


@pytest.mark.slow
def test_what_the_documentation_types(scene):
    scene.write("train.py", "import sys; print(sys.argv[1:])")
    path = f"{Path(scene.python).parent}:{scene.env['PATH']}"
    assert len(TYPED) == 3
    for typed in TYPED:
        run = scene.run("-c", typed, argv=["sh"], env={"PATH": path})
        assert run.code == 0, run.err
    assert run.out.count("['--lr', '0.1']") == 4

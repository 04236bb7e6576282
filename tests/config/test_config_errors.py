"""Bad input: one short screen that says what, where and what to do."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from omegaconf import DictConfig

from elastic_fsm.config import RunConfig, compose, resolve, torchrun_hint
from elastic_fsm.config.schema import field_types
from elastic_fsm.problems import BadInput

MANY = 5000 * "1"
"""More digits than Python makes a number of."""
LARGE = f"1{400 * '0'}"
"""Larger than any float."""
BYTE = b"\xff".decode("utf-8", "surrogateescape")
"""A byte that is not UTF-8, as Python keeps it in a word of the command line."""
HALF = "\ud800"


@pytest.mark.parametrize(
    ("word", "path", "fix"),
    [
        ("spec.max_restart=2", "spec.max_restart", "did you mean 'spec.max_restarts'?"),
        ("max_restart=2", "max_restart", "did you mean 'spec.max_restarts'?"),
        ("launcher.max_restarts=2", "launcher.max_restarts", "spec.max_restarts"),
        ("spec.nope=1", "spec.nope", "known: spec.role, "),
        ("+spec.nope=1", "spec.nope", "known: spec.role, "),
        ("++nope.deep.er=1", "nope", "elastic-fsm config"),
        ("nprocs=4", "nprocs", "spec.local_world_size=4"),
        ("nproc_per_node=4", "nproc_per_node", "spec.local_world_size=4"),
        ("max_restarts=3", "max_restarts", "spec.max_restarts=3"),
        ("spec.nproc_per_node=4", "spec.nproc_per_node", "spec.local_world_size=4"),
        ("rendezvous.rdzv_endpoint=a:1", "rendezvous.rdzv_endpoint", "rendezvous.endpoint=a:1"),
        ("rdzv_backend=c10d", "rdzv_backend", "rendezvous="),
        ("nnodes=2", "nnodes", "rendezvous.min_nodes"),
        ("node_rank=0", "node_rank", "rendezvous.node_rank=0"),
        ("master_port=29500", "master_port", "spec.master_port=29500"),
        ("monitor_interval=1", "monitor_interval", "spec.monitor_interval=1"),
        ("log_dir=x", "log_dir", "run_dir=x"),
        ("redirects=3", "redirects", "logs.mode="),
        ("tee=3", "tee", "logs.mode="),
        ("hydra.run.dir=x", "hydra.run.dir", "leave it out"),
        ("~spec.cwd", "spec.cwd", "spec.cwd="),
        ("~logs", "logs", "logs="),
        ("~machine.transitions.reforn", "machine.transitions.reforn", "'reform'"),
        ("machine.states.INIT.ignores.99=x", "machine.states.INIT.ignores.99", "whole list"),
    ],
)
def test_unknown_keys(refused, word, path, fix):
    (problem,) = refused(word)
    assert problem.path == path
    assert fix in problem.fix
    assert problem.where == "command line"


@pytest.mark.parametrize(
    ("word", "what", "fix"),
    [
        ("spec.max_restarts=four", "'four'", "a whole number"),
        ("spec.module=maybe", "'maybe'", "true or false"),
        ("restart.factor=x", "'x'", "a number"),
        ("stop.signals=TERM", "'TERM'", "a list"),
        ("logs.console_ranks=[a]", "['a']", "a list of whole numbers"),
        ("spec=3", "no spec called '3'", "default"),
        ("spec.local_world_size=0", "0 workers", "at least 1, or auto"),
        ("spec.local_world_size=two", "'two' workers", "at least 1, or auto"),
        ("spec.local_world_size=true", "True workers", "at least 1, or auto"),
        ("spec.max_restarts=-1", "-1 is too small", "at least 0"),
        ("stop.grace=-1", "-1", "seconds"),
        ("stop.grace=soon", "'soon'", "30s"),
        ("restart.delay=null", "null", "0 is no wait"),
        ("spec.stdin=1", "no local rank 1", "0 to 0"),
        ("spec.worker_env.3.A=x", "no local rank 3", "0 to 0"),
        ("spec.worker_env.x.A=x", "'x' is no local rank", "spec.worker_env.0.NAME"),
        ("spec.env.=x", "''", "not empty"),
        ("spec.env.A=\0", "NUL", "take"),
        ("spec.env.A\0=x", "NUL", "take"),
        ("spec.worker_env.0.A=\0", "NUL", "take"),
        ('spec.args=["\\0"]', "NUL", "take"),
        ("run_dir=a\0", "NUL", "take"),
        ("run_id=a\0", "NUL", "take"),
        ("spec.cwd=a\0", "NUL", "take"),
        ("spec.cwd=", "''", "'.'"),
        ("stop.kill_timeout=0", "more than 0", "5s"),
        ("stop.signals=[SIGTSTP]", "SIGTSTP cannot: it pauses", "SIGTERM"),
        ("stop.signals=[SIGCONT]", "SIGCONT cannot: it wakes", "SIGTERM"),
        ("stop.signal=STOP", "SIGSTOP cannot: it pauses", "SIGTERM"),
        ("stop.signal=SIGTTIN", "SIGTTIN cannot: it pauses", "SIGTERM"),
        ("stop.signal=CONT", "SIGCONT cannot: it wakes", "SIGTERM"),
        ("spec.args=x", "'x'", "[--lr"),
        ("spec.args.0=x", "no such argument", "whole list"),
        ("spec.master_port=70000", "70000", "65535"),
        ("logs.mode=both", "'both'", "tee, files, console, terminal"),
        ('logs.prefix="{rnak}"', "{rnak}", "'rank'"),
        ('logs.prefix="{"', "", "{{"),
        ("exit_code=0", "'0'", "final, torchrun"),
        ("stop.signals=[TREM]", "'TREM'", "'TERM'"),
        ("stop.signals=[KILL]", "SIGKILL cannot: it cannot be caught", "SIGTERM"),
        ("run_id=", "''", "leave it out"),
        ("run_id=a/b", "'a/b'", "run_dir"),
        ("run_id=a\nb", r"'a\nb' has control characters", "leave"),
        ("run_id=latest", "'latest'", "leave it out"),
        ("run_id=" + 100 * "€", "too long", "255 bytes"),
        ("run_dir=", "''", "'.'"),
        ("spec.role=???", "no value", "spec.role="),
        ("run_dir=${nope.x}", "nope.x", "root"),
        ("run_dir=${oc.env:SURELY_NOT_SET}", "SURELY_NOT_SET", ""),
        ("run_dir=${hydra:runtime.cwd}", "", ""),
        ("machine=elastik", "no machine called 'elastik'", "did you mean 'elastic'?"),
        ("launcher=sssh", "no launcher called 'sssh'", "subprocess"),
        ("foo", "'foo'", "key=value"),
        ("spec={max_restarts: x}", "'x'", "a whole number"),
        (f"spec.max_restarts={MANY}", "too long for a number", "fewer digits"),
        (f"spec.max_restarts=+{MANY}", "too long for a number", "fewer digits"),
        (f"stop.grace={MANY}", "too long for a number", "fewer digits"),
        (f"machine.x=[{MANY}]", "too long for a number", "fewer digits"),
        (f"spec.worker_env.{MANY}.X=x", "is no local rank", "spec.worker_env.0.NAME"),
        (f"spec.worker_env={{{MANY}: {{X: x}}}}", "cannot read", "quote"),
        (f"spec.args.{MANY}=x", "no such argument", "whole list"),
        (f"machine.states.INIT.ignores.{MANY}=x", "no such place", "whole list"),
        ("spec.role={a: 1, b: 2}", "{'a': 1, 'b': 2} does not fit", "it takes text"),
        ("spec={role: {a: 1, b: 2}}", "a mapping does not fit", "it takes text"),
        ("spec.role=${run_id}", "'${run_id}' leads to what does not fit", "it takes text"),
        ("spec.role=${spec.args}", "'${spec.args}' leads to what does", "it takes text"),
        ("spec.max_restarts=${spec.role}", "'${spec.role}' leads to what", "a whole number"),
        ("logs.console_ranks=['${spec.role}']", "leads to what does not fit", "whole numbers"),
        ("spec.args=1", "'1' does not fit", "it takes a list, such as [--lr, 1e-3]"),
        ("spec.args=", "'' does not fit", "it takes a list, such as [--lr, 1e-3]"),
        ("spec.args=[x", "cannot read '[x'", "quote words"),
        ("spec.env=null", "'null' does not fit", "it takes a mapping, such as {NAME: text}"),
        ("spec.worker_env=[]", "'[]' does not fit", "such as {0: {NAME: text}}"),
        ("spec.worker_env.0=null", "'null' does not fit", "such as {NAME: text}"),
        ("spec.worker_env={0: x}", "'x' does not fit", "such as {NAME: text}"),
        ("spec.worker_env={a: {B: x}}", "'a' is no local rank", "{0: {NAME: text}}"),
        (f"spec.args={BYTE}", "not UTF-8", "at the end of the line"),
        (f"spec.args=[{BYTE}]", "not UTF-8", "at the end of the line"),
        (f"spec.env={{A: {BYTE}}}", "not UTF-8", "spec.env.NAME="),
        (f"spec.worker_env={BYTE}", "not UTF-8", "spec.worker_env.0.NAME="),
        (f"spec.worker_env.1={{A: {BYTE}}}", "not UTF-8", "spec.worker_env.1.NAME="),
        (f"spec.role={BYTE}", "Hydra cannot read", "as text: 'spec.role=\"…\"'"),
        (f"spec.env.A={HALF}", "half a character", "take it out"),
        ("plugins=[[a]]", "['a'] does not fit", "a list of texts, such as [a, b]"),
        ("plugins=[{a: 1}]", "{'a': 1} does not fit", "a list of texts, such as [a, b]"),
        ("launcher.preload=[[a]]", "['a'] does not fit", "a list of texts, such as [a, b]"),
        ("logs.stdout_filters=[[a]]", "['a'] does not fit", "a list of texts, such as [a, b]"),
        (f"restart.factor={LARGE}", "does not fit", "it takes a number"),
        (f"restart={{factor: {LARGE}}}", "does not fit", "it takes a number"),
        ("machine=careful", "no machine called 'careful'", "'coarse'?  (machine has: coarse, "),
        ("machine=careful", "no machine called 'careful'", "beside the job file: -c job.yaml"),
        ("spec.role=${..}", "cannot be read", "written as ${spec.role}"),
        ("stop.grace=${..}", "cannot be read", "written as ${spec.role}"),
        ("machine.doc=${..}", "cannot be read", "written as ${spec.role}"),
        ("spec.role=${spec}", "goes in a circle", "it takes text"),
        ("machine.x=${machine.x}", "goes in a circle", "give it a value"),
    ],
)
def test_values(refused, word, what, fix):
    (problem,) = refused(word)
    assert what in problem.what
    assert fix in problem.fix
    assert len(problem.what) < 300
    assert problem.where.startswith("command line")


def test_a_number_that_is_referred_to_may_be_too_large(refused):
    (problem,) = refused("restart.factor=${machine.x}", f"machine.x={LARGE}")
    assert (problem.path, problem.fix) == ("restart.factor", "it takes a number")


def test_a_value_in_quotes_may_be_any_bytes():
    assert compose([f'spec.role="{BYTE}"']).values["spec"]["role"] == BYTE


def test_a_plus_is_refused_for_every_key_that_there_is(refused):
    """Whatever its value is: null, a text that Hydra does not read, or the choice of a file."""
    problems = refused(*(f"+{key}=x" for key in field_types()))
    assert [problem.path for problem in problems] == [*field_types()]
    assert {(p.what, p.fix) for p in problems} == {("has a value already", "leave the + out")}


def test_an_option_of_a_backend_may_be_there_already(refused):
    (problem,) = refused("rendezvous.options.timeout=1", "+rendezvous.options.timeout=2")
    assert (problem.what, problem.fix) == ("has a value already", "leave the + out")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spec.role", "a=b"),
        ("logs.prefix", "[x"),
        ("spec.role", "a,b"),
        ("spec.role", "it's"),
        ("spec.role", 'say "hi"'),
        ("spec.role", "a#b"),
        ("spec.role", "{x"),
        ("spec.role", "[back\\"),
    ],
)
def test_what_hydra_cannot_read_is_answered_with_the_words_to_type(refused, key, value):
    (problem,) = refused(f"{key}={value}")
    offered = problem.fix.partition("as text: ")[2]
    echo = subprocess.run(["sh", "-c", f"printf %s {offered}"], capture_output=True, text=True)
    group, name = key.split(".")
    assert compose([echo.stdout]).values[group][name] == value
    assert shlex.split(offered) == [echo.stdout]


def test_a_sweep_for_a_list_is_answered_with_brackets(refused):
    (problem,) = refused("stop.signals=TERM,INT")
    assert "'stop.signals=[TERM,INT]'" in problem.fix


def test_all_misspelt_words_are_named_at_once(refused):
    problems = refused("spec.max_restart=2", "nprocs=4", "machine=elastik", "logs.prefix=[x")
    assert [p.path for p in problems] == ["spec.max_restart", "nprocs", "machine", "logs.prefix"]


def test_all_wrong_values_are_named_at_once(refused):
    problems = refused(
        "spec.max_restarts=four",
        "spec={stdin: x, nope: 2}",
        "~machine.transitions.nope",
        "stop.grace=x",
        "run_id=",
        "run_dir=${nope}",
    )
    assert {p.path for p in problems} == {
        "spec.max_restarts",
        "spec.stdin",
        "spec.nope",
        "machine.transitions.nope",
        "stop.grace",
        "run_id",
        "run_dir",
    }


def test_torchrun_names_as_options():
    assert "spec.local_world_size=4" in torchrun_hint("--nproc-per-node", "4")
    assert "spec.max_restarts=…" in torchrun_hint("max-restarts")
    assert torchrun_hint("frobnicate") == ""


def bomb(start: str, entry: str, levels: int) -> str:
    """Lists of ten times the list before: each level is ten times as large."""
    lines = [start, f"{entry.format(0)}&a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        below = ", ".join([f"*a{level - 1}"] * 10)
        lines += [f"{entry.format(level)}&a{level} [{below}]"]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (f"run_id: x\nspec: {{args: {'[' * 5000}\n", "job.yaml:2:", "nesting depth"),
        (f"run_id: x\nspec: {{args: {'[' * 900}{']' * 900}}}\n", "job.yaml:2", "too deeply"),
        (f"machine:\n  x: {'{a: ' * 900}1{'}' * 900}\n", "job.yaml:2", "too deeply"),
        ("spec:\n  args: &a [*a]\n", "job.yaml:2", "holds itself"),
        ("machine: &m {x: *m}\n", "job.yaml:1", "holds itself"),
        (f"spec:\n  max_restarts: {MANY}\n", "job.yaml:2", "too long for a number"),
        (f"machine:\n  x: [0x{MANY}]\n", "job.yaml:2", "too long for a number"),
        (f"spec: {{worker_env: {{\n ? 0x{MANY}\n : {{}}}}}}\n", "job.yaml:2", "too long for a"),
        ("spec:\n  role: {a: 1, b: 2}\n", "job.yaml:2", "a mapping does not fit"),
        ("logs: files\n", "job.yaml:1", "'files' may be a choice"),
        ("plugins:\n  - my_rules:\n", "job.yaml:2", "{'my_rules': None} does not fit"),
        ("launcher: {preload: [{a: 1}]}\n", "job.yaml:1", "{'a': 1} does not fit"),
        (f"restart:\n  factor: {LARGE}\n", "job.yaml:2", "does not fit"),
        (f"spec:\n  monitor_interval: {LARGE}\n", "job.yaml:2", "does not fit"),
        ("spec: {worker_env: {0: '${run_id}'}}\n", "job.yaml:1", "None does not fit"),
        ("spec: {worker_env: '${spec.env}', env: {A: x}}\n", "job.yaml:1", "'x' does not fit"),
        ("run_dir: '${..}'\n", "job.yaml:1", "holds a reference that cannot be read"),
        ("spec:\n  env: {'': x}\n", "job.yaml:2", "'' cannot name a variable"),
        (bomb("machine:", "  a{}: ", 5), "job.yaml:6", "too large"),
        (bomb("machine:", "  a{}: ", 30), "job.yaml:6", "too large"),
        (bomb("spec:\n  args:", "  - ", 5), "job.yaml:7", "too large"),
    ],
)
def test_files_that_nobody_could_read(refused, folder, text, where, what):
    (problem,) = refused(job=folder("job.yaml", text))
    assert problem.where.startswith(where)
    assert what in problem.what
    assert len(str(problem)) < 400


@pytest.mark.parametrize(
    "word",
    [
        f"machine.{'.'.join('x' * 3000)}=1",
        f"machine.x={'[' * 3000}",
        f"spec.args=[{'[' * 3000}",
        f"spec.args={'[' * 200}{']' * 200}",
    ],
)
def test_words_that_nobody_could_read(refused, word):
    (problem,) = refused(word)
    assert problem.where == "command line"


def test_a_program_that_nobody_could_read():
    tree = {}
    for _ in range(3000):
        tree = {"x": tree}
    with pytest.raises(BadInput, match="the calling program: a value is nested too deeply"):
        resolve({"machine": tree})


@pytest.mark.parametrize("kind", [set, frozenset, object])
def test_a_program_is_told_which_value_cannot_be(kind):
    with pytest.raises(BadInput) as caught:
        resolve({"spec": {"role": kind()}})
    (problem,) = caught.value.problems
    assert (problem.where, problem.path) == ("the calling program", "spec.role")
    assert kind.__name__ in problem.what
    assert "as RunConfig has them" in problem.fix


def test_a_program_may_leave_out_too_much():
    with pytest.raises(BadInput, match=r"the calling program: plugins: .*Non optional list"):
        resolve(RunConfig(plugins=None))
    with pytest.raises(BadInput, match=r"the calling program: restart\.factor: "):
        resolve({"restart": {"factor": int(LARGE)}})


@pytest.mark.parametrize("content", [None, "???", "${x}"])
def test_a_node_without_a_mapping_is_no_run(content):
    with pytest.raises(BadInput, match="cannot use a DictConfig of") as caught:
        resolve(DictConfig(content))
    assert repr(content) in caught.value.problems[0].what
    assert "pass a DictConfig" in caught.value.problems[0].fix


@pytest.mark.parametrize("key", ["logs.mode", "spec.local_world_size", "stop.grace", "exit_code"])
def test_a_large_value_is_not_printed(refused, folder, key):
    group, _, name = key.rpartition(".")
    value = f'{name}: "{"x" * 5000}"\n'
    (problem,) = refused(job=folder("job.yaml", f"{group}:\n  {value}" if group else value))
    assert len(str(problem)) < 400


def test_text_that_no_process_can_take(refused, folder):
    text = 'spec:\n  role: "a\\0"\n  master_addr: "\\0"\n  local_addr: "\\0"\nplugins: ["\\0"]\n'
    found = refused(job=folder("job.yaml", text + 'machine: {doc: "\\0", initial: "\\0"}\n'))
    assert [(p.where, p.path) for p in found] == [
        ("job.yaml:5", "plugins.0"),
        ("job.yaml:6", "machine.doc"),
        ("job.yaml:6", "machine.initial"),
        ("job.yaml:2", "spec.role"),
        ("job.yaml:3", "spec.master_addr"),
        ("job.yaml:4", "spec.local_addr"),
    ]
    spec = {"role": HALF, "entrypoint": HALF, "args": [HALF], "env": {"A": HALF}}
    with pytest.raises(BadInput) as caught:
        resolve({"spec": spec | {"worker_env": {0: {"B": HALF, HALF: "x"}}}})
    assert all("half a character" in problem.what for problem in caught.value.problems)
    assert [problem.path for problem in caught.value.problems] == [
        "spec.role",
        "spec.entrypoint",
        "spec.args.0",
        "spec.env.A",
        "spec.worker_env.0.B",
        f"spec.worker_env.0.{HALF}",
    ]

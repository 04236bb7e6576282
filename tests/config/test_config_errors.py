"""Bad input: one short screen that says what, where and what to do."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from elastic_fsm.config import compose, torchrun_hint


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
        ("rdzv_backend=c10d", "rdzv_backend", "rendezvous="),
        ("nnodes=2", "nnodes", "one node"),
        ("node_rank=0", "node_rank", "one node"),
        ("master_port=29500", "master_port", "spec.master_port=29500"),
        ("monitor_interval=1", "monitor_interval", "nothing polls"),
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
        ("spec.args=x", "'x'", "[--lr"),
        ("spec.args.0=x", "no such argument", "whole list"),
        ("spec.master_port=70000", "70000", "65535"),
        ("logs.mode=both", "'both'", "tee, files, console, terminal"),
        ('logs.prefix="{rnak}"', "{rnak}", "'rank'"),
        ('logs.prefix="{"', "", "{{"),
        ("exit_code=0", "'0'", "final, torchrun"),
        ("stop.signals=[TREM]", "'TREM'", "'TERM'"),
        ("stop.signals=[KILL]", "SIGKILL cannot be caught", "take it out"),
        ("run_id=", "''", "leave it out"),
        ("run_id=a/b", "'a/b'", "run_dir"),
        ("run_id=latest", "'latest'", "leave it out"),
        ("run_dir=", "''", "'.'"),
        ("spec.role=???", "no value", "spec.role="),
        ("run_dir=${nope.x}", "nope.x", "root"),
        ("run_dir=${oc.env:SURELY_NOT_SET}", "SURELY_NOT_SET", ""),
        ("run_dir=${hydra:runtime.cwd}", "", ""),
        ("machine=elastik", "no machine called 'elastik'", "did you mean 'elastic'?"),
        ("launcher=sssh", "no launcher called 'sssh'", "subprocess"),
        ("foo", "'foo'", "key=value"),
        ("spec={max_restarts: x}", "'x'", "a whole number"),
    ],
)
def test_values(refused, word, what, fix):
    (problem,) = refused(word)
    assert what in problem.what
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spec.cwd", "a=b"),
        ("logs.prefix", "[x"),
        ("spec.cwd", "a,b"),
        ("spec.cwd", "it's"),
        ("spec.cwd", 'say "hi"'),
        ("spec.cwd", "a#b"),
        ("spec.cwd", "{x"),
        ("spec.cwd", "[back\\"),
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

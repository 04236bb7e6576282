"""What a scenario names must be there, and its mistakes are told with its own lines."""

from __future__ import annotations

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.problems import BadInput
from elastic_fsm.scenario.script import parse_script
from elastic_fsm.scenario.simulating import Stage

OWN = (
    "set machine.transitions.rest={trigger: rested, source: [HEALTHY]}\n"
    "set machine.states.HEALTHY.timeouts={rested: 5h}\n"
)


def problems_of(text: str, *overrides: str) -> list[str]:
    with pytest.raises(BadInput) as found:
        Stage(overrides).play(parse_script(text, name="x.txt"))
    return [" / ".join(map(str.strip, str(p).splitlines())) for p in found.value.problems]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("event membership_chnaged", "unknown event 'membership_chnaged' / did you mean"),
        ("event nonsense", "unknown event 'nonsense' / known: action_failed, "),
        ("event worker_exited", "worker_exited needs local_rank / write `at 40s event"),
        ("event worker_exited local_rank=1", "worker_exited needs exit_code"),
        ("event worker_exited local_rank=x exit_code=1", "local_rank of worker_exited is a number"),
        ("event worker_exited local_rank=4 exit_code=1", "there is no worker 4: they are 0 to 1"),
        ("event worker_exited local_rank=-1 exit_code=1", "there is no worker -1"),
        ("event signal_received", "signal_received needs signal"),
        ("event signal_received signal=SIGFOO", "unknown signal 'SIGFOO'"),
        ("event command_failed nmae=x", "command_failed has no 'nmae' / did you mean 'name'?"),
        ("event rendezvous_completed", "cannot be written as an event / write `at 40s rendezvous"),
        ("event workers_started", "cannot be written as an event / it is the answer"),
        ("event workers_stuck", "cannot be written as an event / it is the answer"),
        ("worker 2 exits 1", "there is no worker 2: they are 0 to 1"),
    ],
)
def test_events_are_known_and_have_their_data(line, what):
    (problem, *_) = problems_of(f"workers 2\nat 3s {line}\n")
    assert problem.startswith("x.txt:2: ")
    assert what in problem


@pytest.mark.parametrize(
    "line",
    [
        "event worker_exited local_rank=1 exit_code=-9",
        "event signal_received signal=SIGTERM",
        "event membership_changed",
        "event rendezvous_failed",
        "event command_failed",
        "event command_finished name=x",
        "event action_failed",
        "event workers_stopped",
        "event run_finished",
        "event rested a=1",
    ],
)
@pytest.mark.parametrize("machine", ["elastic", "fail_fast"])
def test_whatever_is_known_can_happen(line, machine):
    """With what a line does not say filled in, so that no reader misses it."""
    run = Stage().play(
        parse_script(f"machine {machine}\nworkers 2\n{OWN}at 3s {line}\nend at 9s\n")
    )
    assert not run.run.agent.error.startswith("KeyError")
    assert any(r.get("event", {}).get("name") == line.split()[1] for r in run.run.records)


def test_a_line_says_one_thing_about_a_command_and_leaves_the_other():
    text = (
        "workers 1\nmax_restarts 2\ncommand tell.sh takes 3s\ncommand tell.sh exits 4\n"
        "set machine.states.HEALTHY.on_enter=[{run_command: {argv: [./tell.sh]}}]\n"
        "at 10s command tell.sh takes 5s\nat 10s worker 0 exits 1\n"
        "at 20s command tell.sh takes 1s and exits 0\nat 20s worker 0 exits 1\nend at 1m\n"
    )
    run = Stage().play(parse_script(text)).run
    ends = [r for r in run.records if r["event"]["name"].startswith("command_")]
    told = [(r["facts"]["now"], r["event"]["data"]["exit_code"]) for r in ends]
    assert told == [(3, 4), (15, 4), (21, 0)]


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("set spec.max_restrats=3", "did you mean"),
        ("set spec.max_restarts=many", "it takes"),
        ("set stop.grace=-3", "stop.grace"),
        ("workers 0", "0 workers cannot be started"),
        ("machine elstic", "did you mean 'elastic'?"),
        ("set machine.transitions.restart.dest=BACKOF", "did you mean 'BACKOFF'?"),
        ("set machine.transitions.x={trigger: signal_received, source: [HEALHTY]}", "did you mean"),
        ("set plugins=[no_such_rules]", "there is no module 'no_such_rules'"),
    ],
)
def test_a_mistake_in_a_setting_is_told_with_its_line(line, what):
    (problem, *_) = problems_of(f"# why\n{line}\n")
    assert problem.startswith("x.txt:2: "), problem
    assert what in problem


def test_a_mistake_of_the_users_is_the_users():
    (problem,) = problems_of("max_restarts 3\n", "spec.max_restarts=many")
    assert problem.startswith("command line: ")


def test_a_machine_of_a_comparison_is_the_users(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("machine elastic, fail_fst\nworkers 1\nend at 1s\n")
    words = ["simulate", str(tmp_path / "x.txt")]
    assert run_command_line(words) == 2
    assert "x.txt:1: machine: there is no machine called 'fail_fst'" in capsys.readouterr().err
    assert run_command_line([*words, "--compare", "machine=elastic,fial_fast"]) == 2
    assert (
        "command line: machine: there is no machine called 'fial_fast'" in capsys.readouterr().err
    )


@pytest.mark.parametrize("words", [("-n", "100000000"), ("spec.local_world_size=10001",)])
def test_more_workers_than_can_be_played(words, tmp_path, capsys):
    (tmp_path / "x.txt").write_text("at 1s worker 0 exits 1\n")
    assert run_command_line(["simulate", str(tmp_path / "x.txt"), *words]) == 2
    assert "command line: spec.local_world_size: 1000" in capsys.readouterr().err


# -- against real runs -----------------------------------------------------------------------------


@pytest.fixture
def inject(tmp_path, monkeypatch, capsys):
    """What ``run --inject --dry-run`` says: exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()

    def run(text: str, *words: str) -> tuple[int, str, str]:
        (tmp_path / "there" / "x.txt").write_text(text)
        code = run_command_line(["run", "--dry-run", "--inject", "there/x.txt", *words, "true"])
        return code, *capsys.readouterr()

    return run


def test_what_a_run_cannot_take_is_told_before_anything_starts(inject):
    code, out, err = inject("workers 2\nat 3s event nonsense\nat 4s event worker_exited\n")
    assert (code, out) == (2, "")
    assert "there/x.txt:2: unknown event 'nonsense'" in err
    assert "there/x.txt:3: worker_exited needs local_rank" in err


def test_a_mistake_in_a_setting_of_an_injected_scenario(inject):
    code, _, err = inject("workers 2\nset spec.max_restarts=many\n")
    assert code == 2
    assert "there/x.txt:2: spec.max_restarts: 'many' does not fit" in err


def test_plug_ins_stand_beside_an_injected_scenario(inject, tmp_path):
    (tmp_path / "there" / "rules_beside_it.py").write_text(
        "from elastic_fsm import condition\n"
        "@condition\ndef never_ever(event, facts):\n    return False\n"
    )
    code, out, err = inject(
        "workers 1\nset plugins=[rules_beside_it]\n"
        "set machine.transitions.restart.conditions=[never_ever]\n"
    )
    assert (code, err) == (0, "")
    assert "true" in out

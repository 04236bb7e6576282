"""What a scenario names must be there, and its mistakes are told with its own lines."""

from __future__ import annotations

import re

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
        ("event worker_exited local_rank=x exit_code=1", "local_rank of worker_exited is not a"),
        ("event worker_exited local_rank=1.5 exit_code=1", "is not a whole number"),
        ("event worker_exited local_rank=0 exit_code=99999999999999", "sensible size: 9999"),
        ("event worker_exited local_rank=0 exit_code=1 reason=5", "reason of worker_exited is not"),
        (
            "event worker_exited local_rank=0 exit_code=1 stopped_by_agent=False",
            "stopped_by_agent of worker_exited is not true or false: 'False'",
        ),
        ("event timer_expired local_rank=0 scope=5", "scope of timer_expired is not a string: 5"),
        ("event timer_expired local_rank=0 after=-3", "after of timer_expired is not a number"),
        ("event command_failed exit_code=x", "exit_code of command_failed is not a whole number"),
        ("event worker_exited local_rank=4 exit_code=1", "there is no worker 4: they are 0 to 1"),
        ("event worker_exited local_rank=-1 exit_code=1", "there is no worker -1"),
        ("event signal_received", "signal_received needs signal"),
        ("event signal_received signal=SIGFOO", "unknown signal 'SIGFOO'"),
        (
            "event signal_received signal=SIGUSR1",
            "does not listen to SIGUSR1: a real one would end",
        ),
        ("signal SIGUSR1", "the agent / it listens to SIGHUP, SIGINT, SIGQUIT, SIGTERM"),
        ("signal SIGKILL", "the run does not listen to SIGKILL: SIGKILL cannot be caught"),
        ("signal SIGWINCH", "a real one would come to nothing"),
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
        "event worker_exited local_rank=1 exit_code=1 stopped_by_agent=true",
        "event timer_expired local_rank=0 after=0.5",
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


SIGUSR1 = (
    "set machine.transitions.pass_on={trigger: signal_received, source: [HEALTHY], "
    "conditions: [{signal_in: [SIGUSR1]}], after: [signal_workers]}\n"
)


@pytest.mark.parametrize("setting", [SIGUSR1, "set stop.signals=[USR1]\n"])
def test_a_signal_that_the_run_listens_to(setting):
    """Since it ends the run, or since the machine asks for it."""
    run = Stage().play(parse_script(f"{setting}at 3s signal SIGUSR1\nend at 4s\n")).run
    assert run.records[-1]["event"]["data"] == {"signal": "SIGUSR1"} or run.path[-1][1] == "STOPPED"


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


# -- all at once -----------------------------------------------------------------------------------


@pytest.fixture
def simulated(tmp_path, monkeypatch, capsys):
    """What ``simulate`` says of a file that it cannot play."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *words: str) -> str:
        (tmp_path / "x.txt").write_text(text)
        assert run_command_line(["simulate", "x.txt", *words]) == 2
        return capsys.readouterr().err

    return run


ALL_WRONG = (
    "workers 2\nat 1s wrker 0 exits 1\nset spec.max_restrats=3\nset stop.grace=-3\n"
    "at 1s event nonsense\nat 1s worker 9 exits 1\nat 1s signal SIGUSR1\n"
)


def test_what_is_wrong_in_one_way_hides_nothing_that_is_wrong_in_another(simulated):
    told = simulated(ALL_WRONG)
    assert "6 problems" in told
    assert re.findall(r"x\.txt:(\d)", told) == list("234567")


@pytest.mark.parametrize(
    "text",
    [
        "wrokers 4\nat 1s worker 3 exits 1\n",
        "workers 4 of them\nat 1s worker 3 exits 1\n",
        "set spec.local_wrld_size=4\nat 1s worker 3 exits 1\n",
        "machin own\nat 1s event rested\nat 1s signal SIGUSR1\n",
        "machine own\nset machine.transitions.x.dest=THERE\nat 1s event rested\n",
        "set stop.signlas=[SIGUSR1]\nat 1s signal SIGUSR1\n",
        "set plugins=[no_such_rules]\nat 1s event rested\nat 1s signal SIGUSR1\n",
    ],
)
def test_what_a_wrong_setting_would_have_said_is_not_known(simulated, text):
    """One slip is one problem."""
    assert re.findall(r"x\.txt:(\d)", simulated(text)) == ["1"]


def test_a_wrong_setting_of_the_users_hides_nothing_of_the_file(simulated):
    told = simulated("at 1s wrker 0 exits 1\n", "spec.max_restrats=3")
    assert "x.txt:1: cannot read" in told
    assert "command line: spec.max_restrats" in told


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


def test_lines_that_cannot_be_read_hide_nothing_of_an_injected_scenario(inject):
    code, _, err = inject("workers 2\nat 3s wrker 0 exits 137\nat 4s event nonsense\n")
    assert code == 2
    assert re.findall(r"there/x\.txt:(\d)", err) == ["2", "3"]
    assert re.findall(r"there/x\.txt:(\d)", inject("set stop.grace=-3\nwrker 0\n")[2]) == ["1", "2"]


@pytest.mark.parametrize("line", ["signal SIGUSR1", "event signal_received signal=SIGUSR1"])
def test_a_signal_to_which_a_real_run_does_not_listen(inject, line):
    code, _, err = inject(f"workers 2\nat 3s {line}\nat 4s signal SIGHUP\n")
    assert code == 2
    assert "there/x.txt:2: the run does not listen to SIGUSR1" in err
    assert inject(f"workers 2\n{SIGUSR1}at 3s {line}\n")[0] == 0


def test_a_wrong_setting_hides_nothing_of_an_injected_scenario(inject):
    code, out, err = inject(ALL_WRONG)
    assert (code, out) == (2, "")
    assert re.findall(r"there/x\.txt:(\d)", err) == list("2345667")


def test_a_stop_signal_that_no_condition_of_the_machine_asks_for(inject):
    every = "set machine.transitions.told_to_stop.conditions=[]\n"
    quick = "set machine.transitions.hurry.conditions=[]\n"
    words = ("~machine.transitions.other_signal", "~machine.transitions.same_signal")
    code, _, err = inject(f"workers 2\n{every}{quick}at 3s signal SIGTERM\n", *words)
    assert (code, err) == (0, "")


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

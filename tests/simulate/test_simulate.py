"""``elastic-fsm simulate``: scenarios with the user's own run, in virtual time."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.scenario.playing import play
from elastic_fsm.scenario.script import parse_script, read_script
from elastic_fsm.scenario.simulating import Stage, look_again, simulate
from elastic_fsm.scenario.telling import with_outcome

DAY = """\
workers 8
max_restarts 40
failures every 1h seed 7 by SIGKILL
workers finish after 20h saving every 10m
end at 24h
"""

PASS_ON = (
    "set machine.transitions.pass_on={trigger: signal_received, source: [HEALTHY], "
    "conditions: [{signal_in: [SIGUSR1]}], after: [signal_workers]}\n"
)


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(text: str, name: str = "story.txt") -> str:
        (tmp_path / name).write_text(text)
        return f"scenario={name}"

    return make


@pytest.fixture
def cli(capsys):
    def run(*words: str) -> tuple[int, str, str]:
        code = run_command_line(["simulate", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def told(text: str, *overrides: str, **options) -> str:
    return simulate(parse_script(text), Stage(overrides), **options)


def played(text: str, *overrides: str):
    return Stage(overrides).play(parse_script(text))


# -- what it prints --------------------------------------------------------------------------------


def test_the_story_of_the_issue(write, cli):
    words = write("workers 4\nmax_restarts 1\nat 40s worker 3 exits 137\nat 100s signal SIGTERM\n")
    code, out, err = cli(words)
    assert (code, err) == (0, "")
    assert out == (
        "        0s  begin           JOINING\n"
        "        0s  joined          STARTING\n"
        "        0s  started         HEALTHY\n"
        "       40s  worker_lost     UNHEALTHY   worker 3 exited with 137\n"
        "       40s  restart         BACKOFF\n"
        "       40s  again           JOINING\n"
        "       40s  joined          STARTING\n"
        "       40s  started         HEALTHY\n"
        "    1m 40s  told_to_stop    STOPPING    SIGTERM\n"
        "    1m 40s  stopped         STOPPED\n"
        "\n"
        "restarts used: 1 of 1\n"
        "time in each state:\n"
        "    1m 40s  100.0 %  HEALTHY\n"
        "outcome: STOPPED, exit code 143\n"
    )


def test_a_day_with_a_failure_every_hour_takes_no_time(write, cli):
    words = write(DAY)
    cli(words)  # once, so that imports do not count
    began = time.process_time()
    code, out, _ = cli(words)
    assert time.process_time() - began < 1.0
    assert code == 0
    assert "restarts used: 33 of 40\n" in out
    assert "more steps; --whole shows them" in out
    assert out.endswith("outcome: SUCCEEDED, exit code 0\n")
    assert len(cli(words, "--whole")[1].splitlines()) > 33 * 5


def test_the_users_words_win_over_those_of_the_scenario(write, cli):
    words = write("machine elastic\nmax_restarts 5\nworkers 2\nat 1s worker 0 exits 3\n")
    out = cli(words, "spec.max_restarts=0", "machine=fail_fast")[1]
    assert "restarts used: 0 of 0\n" in out
    assert "outcome: FAILED, exit code 3\n" in out
    assert "outcome: HEALTHY for ever: nothing else can happen\n" in cli(words)[1]


def test_the_settings_of_the_run_count(write, cli):
    words = write("workers 1\nmax_restarts 2\nat 1s worker 0 exits 3\nend at 1h\n")
    assert "again" in cli(words)[1]
    out = cli(words, "restart.delay=10s")[1]
    assert "11s  again" in out
    assert "10s    0.3 %  BACKOFF" in out


def test_as_many_workers_as_there_are_devices(write, cli, monkeypatch):
    monkeypatch.setattr("elastic_fsm.devices.workers_for_auto", lambda: 3)
    words = write("at 1s worker 2 exits 5\n")
    assert "worker 2 exited with 5" in cli(words, "spec.local_world_size=auto")[1]


def test_a_job_file_is_the_users_own_run(write, cli, tmp_path):
    words = write("at 1s worker 1 exits 3\n")
    (tmp_path / "job.yaml").write_text(
        "defaults: [{machine: fail_fast}]\nspec: {local_world_size: 2}\n"
    )
    assert "give_up         FAILED" in cli("-c", "job.yaml", words)[1]


def test_policies_side_by_side(write, cli):
    out = cli(write(DAY), "--compare", "machine=elastic,fail_fast")[1]
    table = {line[:18].strip(): line[18:].split("   ") for line in out.splitlines() if line[0:1]}
    assert [cell.strip() for cell in table["outcome"] if cell] == [
        "SUCCEEDED, exit code 0", "FAILED, exit code 137",
    ]  # fmt: skip
    assert "the same for 4 steps, then:\n  elastic: 23m 29s restart BACKOFF\n" in out
    assert "  fail_fast: 23m 29s give_up FAILED\n" in out


def test_a_scenario_for_several_machines_compares_them():
    text = "machine elastic, fail_fast\nworkers 2\nat 1s signal SIGINT\n"
    assert "all take the same 5 steps" in told(text)
    assert "outcome: STOPPED, exit code 130" in told(text, "machine=elastic")


def test_a_scenario_that_is_one_word_will_do(write, cli):
    write("workers 1\nat 1s worker 0 exits 0\n")
    assert cli("story.txt")[0] == 0


def test_the_same_as_data(write, cli):
    words = write("workers 2\nmax_restarts 1\nat 40s worker 1 exits 137\nat 100s signal SIGTERM\n")
    code, out, _ = cli(words, "--json")
    assert code == 0
    told = json.loads(out)
    (run,) = told["runs"]
    assert (told["scenario"], run["machine"]) == ("story.txt", None)
    assert run["outcome"] == {
        "state": "STOPPED", "exit_code": 143, "ending": "the run ended", "error": None,
    }  # fmt: skip
    assert run["restarts"] == {"used": 1, "max": 1, "membership": 0}
    assert run["seconds"] == run["seconds_in"]["HEALTHY"] == 100
    lost = next(step for step in run["path"] if step["transition"] == "worker_lost")
    assert (lost["at"], lost["source"], lost["dest"]) == (40, "HEALTHY", "UNHEALTHY")
    assert (lost["event"], lost["data"]["exit_code"]) == ("worker_exited", 137)


def test_several_machines_as_data(write, cli):
    words = write("machine elastic\nworkers 1\nmax_restarts 1\nat 1s worker 0 exits 3\n")
    runs = json.loads(cli(words, "--json", "--compare", "machine=elastic,fail_fast")[1])["runs"]
    assert [(run["machine"], run["outcome"]["exit_code"]) for run in runs] == [
        ("elastic", None), ("fail_fast", 3),
    ]  # fmt: skip
    assert runs[0]["outcome"]["ending"] == "for ever: nothing else can happen"


def test_help(cli):
    code, out, _ = cli("--help")
    assert (code, "--compare" in out) == (0, True)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "no scenario was named"),
        (["scenario="], "no scenario was named"),
        (["scenario=a.txt", "scenario=b.txt"], "one scenario is played at a time"),
        (["scenario=stroy.txt"], "did you mean 'story.txt'?"),
        (["scenario=story.txt", "machine=elstic"], "did you mean 'elastic'?"),
        (["scenario=story.txt", "--compare"], "--compare needs a value"),
        (["scenario=story.txt", "--compare", "elastic"], "nothing to compare"),
        (["scenario=story.txt", "--compare", "spec=a,b"], "nothing to compare"),
        (["scenario=story.txt", "--comprae=a,b"], "unknown option --comprae"),
        (["scenario=story.txt", "spec.local_world_size=2"], "story.txt:1: there is no worker 2"),
        (["scenario=story.txt", "plugins=[no_such_rules]"], "there is no module 'no_such_rules'"),
        (["scenario=story.txt", "~machine.transitions.reform"], "3 problems"),
        (["scenario=story.txt", "machine=coarse"], "call methods of a SimpleElasticAgent"),
        (["scenario=story.txt", "--compare", "machine=elastic,coarse"], "a SimpleElasticAgent"),
    ],
)
def test_bad_input(write, cli, words, what):
    write("at 1s worker 2 exits 0\nworkers 3\n")
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert what in err
    assert "Traceback" not in err


# -- how it ends -----------------------------------------------------------------------------------


def test_signals_of_one_moment_come_in_the_order_of_the_lines():
    """Each of them goes to the front, before whatever else happens then."""
    run = played(
        f"workers 1\n{PASS_ON}at 5s worker 0 exits 1\nat 5s signal SIGUSR1\n"
        "at 5s event signal_received signal=SIGTERM\n"
    )
    assert [name for name, _ in run.run.path[3:]] == ["pass_on", "told_to_stop", "stopped"]


def test_nothing_else_can_happen():
    run = played("workers 1\nat 5s worker 0 exits 1\nmax_restarts 1\n")
    assert run.result is None
    assert run.duration == 5
    assert run.ending == "for ever: nothing else can happen"


def test_the_scenario_ends():
    run = played("workers 1\nend at 5s\n")
    assert (run.result, run.duration, run.ending) == (None, 5, "when the scenario ends")
    assert run.run.launcher.alive == {}


def test_a_machine_that_goes_round_in_circles():
    """It waits for no time at all, again and again."""
    text = (
        "workers 1\nset machine.states.BACKOFF.timeouts.backoff_elapsed=0\n"
        "set machine.transitions.again={trigger: backoff_elapsed, source: [BACKOFF], dest: same}\n"
        "at 1s worker 0 exits 1\nmax_restarts 1\nend at 1h\n"
    )
    run = played(text)
    assert (run.result, run.duration) == (None, 1)
    assert run.ending == "for ever: it goes round in circles"


# -- work and failures -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saving", "end"), [("", 100.0), (" saving every 10s", 105.0), (" saving every 1h", 145.0)]
)
def test_a_failure_costs_what_was_not_saved(saving, end):
    """It fails at 45 s, of 100 s of work."""
    run = played(
        f"workers 2\nmax_restarts 1\nworkers finish after 100s{saving}\nat 45s worker 0 exits 1\n"
    )
    assert run.run.agent.machine.state.name == "SUCCEEDED"
    assert run.duration == end


def test_a_membership_change_stops_the_work_too():
    run = played(
        "workers 2\nworkers finish after 100s\nworker 0 takes 7s to stop\n"
        "at 45s membership changes\n"
    )
    assert (run.duration, run.run.agent.membership_restarts) == (107, 1)


def test_the_same_seed_gives_the_same_run():
    first, again, other = (told(DAY.replace("seed 7", f"seed {seed}")) for seed in (7, 7, 8))
    assert first == again != other


def test_membership_changes_at_random():
    run = played("workers 1\nmembership changes every 1h seed 3\nend at 24h\n")
    assert 12 < run.run.agent.membership_restarts < 36
    assert run.run.agent.restarts_used == 0


def test_many_workers_that_are_done_are_one_line():
    text = told("workers 64\nworkers finish after 1h\n")
    assert "1h 0m 0s  worker_done     HEALTHY     worker 0 exited with 0, and 62 more\n" in text


def test_a_signal_that_workers_finish_after():
    run = played(f"workers 2\nworkers finish 30s after SIGUSR1\nat 10s signal SIGUSR1\n{PASS_ON}")
    assert run.run.launcher.calls[1] == ("signal", "SIGUSR1", None)
    assert (run.duration, run.result.exit_code) == (40, 0)


def test_a_rendezvous_that_answers_again():
    run = played(
        "workers 1\nrendezvous waits\nat 2s rendezvous completes\nat 3s rendezvous answers\n"
        "at 4s worker 0 exits 0\n"
    )
    assert run.duration == 4
    assert run.result.exit_code == 0


def test_any_event_and_any_command():
    tell = "{run_command: {argv: [tell], timeout: 10s}}"
    run = played(
        "workers 1\ncommand tell takes 3s\nat 9s command tell exits 4\n"
        f"set machine.states.STARTING.on_enter=[start_workers,{tell}]\n"
        "set machine.transitions.sent={trigger: command_finished, source: [HEALTHY]}\n"
        "set machine.transitions.lost={trigger: command_failed, source: [HEALTHY], "
        "dest: SETTLING}\n"
        "max_restarts 1\nat 10s worker 0 exits 1\n"
        "at 20s event command_failed name=x exit_code=2\n"
    )
    times = {r["transition"]: r["facts"]["now"] for r in run.steps}
    assert (times["sent"], times["lost"]) == (3, 13)
    assert run.result.exit_code == 0


# -- files with their outcome ----------------------------------------------------------------------


def test_a_file_is_written_anew(write, cli, tmp_path):
    words = write("# why\nworkers 1\nat 1s worker 0 exits 0\n----\nold\n")
    before, now = look_again(read_script(tmp_path / "story.txt"), Stage())
    assert (before, now.splitlines()[-1]) == ("old\n", "outcome: SUCCEEDED, exit code 0")
    out = cli(words, "--rewrite")[1]
    text = (tmp_path / "story.txt").read_text()
    assert text == f"# why\nworkers 1\nat 1s worker 0 exits 0\n----\n{out}"
    script = read_script(tmp_path / "story.txt")
    assert look_again(script, Stage()) == (out, out)
    assert with_outcome(script, out) == text


def test_the_same_must_come_of_it_with_each_machine(tmp_path):
    path = Path(tmp_path / "both.txt")
    path.write_text(
        "machine elastic, fail_fast\nworkers 1\nmax_restarts 1\nat 1s worker 0 exits 1\nend at 2s\n"
    )
    before, now = look_again(read_script(path), Stage(), rewrite=True)
    assert "outcome: HEALTHY" in before
    assert "outcome: FAILED" in now


def test_plugins_stand_beside_the_scenario(tmp_path):
    (tmp_path / "beside_the_scenario.py").write_text(
        "from elastic_fsm import condition\n"
        "@condition\ndef never(event, facts):\n    return False\n"
    )
    path = tmp_path / "own.txt"
    path.write_text(
        "workers 1\nmax_restarts 1\nset plugins=[beside_the_scenario]\n"
        "set machine.transitions.restart.conditions=[never]\nat 1s worker 0 exits 1\n"
    )
    assert "give_up" in simulate(read_script(path), Stage())


def test_the_scenario_of_the_first_page_says_what_stands_there(write, capsys):
    """Whoever reads the README can do as it does."""
    page = (Path(__file__).parent.parent.parent / "README.md").read_text()
    scenario = re.search(r"^```\n(# failures.txt.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    line, told = re.search(
        r"^\$ elastic-fsm (simulate .*)\n([^`]*)\.\.\.$", page, re.MULTILINE
    ).groups()
    assert write(scenario, "failures.txt") in line
    assert run_command_line(line.split()) == 0
    assert capsys.readouterr().out.startswith(told)


def test_a_scenario_is_played_with_any_values():
    """The door for programs: a script, a configuration and a registry."""
    from elastic_fsm.plugins import rules_for
    from elastic_fsm.testing import settings_for

    values = settings_for("elastic", spec={"local_world_size": 2})
    script = parse_script("at 1s worker 0 exits 0\nat 2s worker 1 exits 0\n")
    run = play(script, values, rules_for([]))
    assert run.time_in_states()["HEALTHY"] == 2

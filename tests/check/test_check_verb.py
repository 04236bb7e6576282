"""``elastic-fsm check``: what it prints, and what it returns."""

from __future__ import annotations

import json
import re

import pytest

from elastic_fsm.checks import known_events
from elastic_fsm.cli import run_command_line
from elastic_fsm.exploration import CLAIMS
from elastic_fsm.machine import load_machine
from elastic_fsm.matrix import matrix
from elastic_fsm.plugins import rules_for
from elastic_fsm.testing import settings_for

SIX = """\
machine:
  states:
    DEAD_END: {ignores: [worker_exited, membership_changed]}
    NOWHERE: {ignores: [worker_exited, membership_changed], timeouts: {bored: 5s}}
  transitions:
    into_it: {trigger: membership_changed, source: [HEALTHY], dest: DEAD_END, conditions: [sunny]}
    told_to_stop: {source: [HEALTHY]}
    broken: {source: [HEALTHY, JOINING]}
    other_signal: {source: [HEALTHY]}
    shaded: {trigger: barrier_passed, source: [SETTLING], dest: FAILED}
    bored: {trigger: bored, source: [NOWHERE], dest: FAILED, condition: [restart_allowed]}
    restart: {unless: []}
"""


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = run_command_line(["check", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def machine_of(name):
    values = settings_for(name)
    registry = rules_for([])
    machine = load_machine(values["machine"], registry, values)
    return machine.spec, sorted(known_events(machine.spec, registry.answers()))


@pytest.mark.parametrize("name", ["elastic", "fail_fast"])
def test_what_we_ship_is_sound(cli, name):
    code, out, err = cli(f"machine={name}")
    assert (code, err) == (0, "")
    first, second, *claims = out.splitlines()
    assert re.fullmatch(r"\d+ states, \d+ transitions: no problems", first)
    assert re.fullmatch(r"explored: \d+ configurations, \d+ moves", second)
    assert len(claims) == len(CLAIMS)
    assert all(claim.startswith("  holds   ") for claim in claims)


def test_many_problems_in_one_answer(cli, tmp_path):
    (tmp_path / "job.yaml").write_text(SIX)
    code, out, err = cli("-c", "job.yaml")
    assert (code, err) == (2, "")
    for what, line in [
        ("unknown condition 'sunny'", 6),
        ("unknown key 'condition'", 11),
        ("no sequence of events leads here", 4),
        ("a dead end: no final state can be reached", 3),
        ("never taken: shadowed by settled (in SETTLING)", 10),
        ("nothing is said for membership_changed when no condition holds", 0),
    ]:
        if line:
            assert re.search(rf"job.yaml:{line}: [\w.]+: {re.escape(what)}", out), what
    assert re.search(r"^\d+ states, \d+ transitions: \d+ problems:$", out, re.MULTILINE)


def test_an_arrow_that_the_machine_needs(cli):
    code, out, _ = cli("~machine.transitions.reform")
    assert code == 2
    assert "machine.states.HEALTHY: membership_changed may come here" in out
    assert "BROKEN  no notice falls through: the shortest way there (it can be played when" in out
    assert "          at 1s membership changes  # membership_changed: nothing happens\n" in out


def test_what_only_the_exploration_finds(cli, tmp_path):
    code, out, _ = cli("~machine.transitions.early_finish")
    assert code == 2
    assert "32 transitions: no problems\n" in out
    scenario = out.partition("as a scenario:\n")[2]
    (tmp_path / "it.txt").write_text("\n".join(line[10:] for line in scenario.splitlines()))
    words = ["simulate", "~machine.transitions.early_finish", "scenario=it.txt"]
    assert run_command_line(words) == 0


def test_an_arrow_that_can_be_spared(cli):
    assert cli("~machine.transitions.hurry")[0] == 0


LISTED = """\
initial: A
states:
  - name: A
    ignores: [worker_exited, membership_changed, signal_received, action_failed]
  - {name: B, final: true, exit_code: 0}
transitions:
  - [run_requested, A, B]
  - {trigger: run_finishd, source: A, dest: B}
"""


def test_problems_of_a_machine_in_list_form_have_their_own_lines(cli, tmp_path):
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "listed.yaml").write_text(LISTED)
    (tmp_path / "job.yaml").write_text("defaults: [{machine: listed}]\n")
    _, out, _ = cli("-c", "job.yaml")
    where = "listed.yaml:8: machine.transitions.run_finishd_A.trigger: unknown event 'run_finishd'"
    assert where in out
    _, out, _ = cli("-c", "job.yaml", "machine.transitions.0.2=C")
    assert "run_requested_A.dest: unknown state 'C'" in out
    _, _, err = cli("-c", "job.yaml", "machine.transitions.run_requested_A.dest=C")
    assert "in list form, whose entries have numbers and no names" in err
    assert "say machine.transitions.0.2=…" in err
    _, _, err = cli("-c", "job.yaml", "~machine.transitions.run_requested_A")
    assert "give the whole list, or write it as a mapping" in err


def test_names_that_lead_nowhere_are_not_explored(cli):
    code, out, _ = cli("machine.transitions.reform.dest=REFROMING")
    assert code == 2
    assert "did you mean 'REFORMING'?" in out
    assert "not explored" in out


def test_of_a_machine_that_is_too_big_nothing_is_known(cli, monkeypatch):
    monkeypatch.setattr("elastic_fsm.exploration.search._MOST_CONFIGURATIONS", 100)
    code, out, _ = cli()
    assert code == 0
    _, explored, *claims = out.splitlines()
    assert explored.endswith(", and there are more")
    assert len(claims) == len(CLAIMS)
    assert all(claim.startswith("  unknown ") for claim in claims)
    assert all("(looked at 10" in claim for claim in claims)


def test_where_nothing_is_waited_for_no_end_can_be_reached(cli):
    """It is said, and not shown twice."""
    code, out, _ = cli("~machine.transitions.early_finish")
    assert code == 2
    assert "  BROKEN  from everywhere a final state can be reached, without help" in out
    assert out.count("the shortest way there:") == 1


def test_what_is_no_fault_and_worth_a_look(cli):
    arrow = "+machine.transitions.dug={trigger: command_finished, source: [BACKOFF], dest: FAILED}"
    code, out, _ = cli(arrow)
    assert (code, "  note    never taken: dug\n" in out) == (0, True)
    code, out, _ = cli("machine=fail_fast", "machine.transitions.worker_lost.dest=FAILED")
    note = "workers that still run when FAILED is entered (by worker_lost) are killed at once"
    assert (code, f"  note    {note}\n" in out) == (0, True)


def test_what_the_checks_have_said_is_not_noted_again(cli):
    arrow = (
        "+machine.transitions.shaded={trigger: barrier_passed, source: [SETTLING], dest: FAILED}"
    )
    code, out, _ = cli(arrow)
    assert (code, "never taken: shadowed by settled" in out) == (2, True)
    assert "note" not in out


def test_as_data(cli):
    told = json.loads(cli("--json")[1])
    assert (told["states"], told["problems"]) == (16, [])
    assert told["matrix"]["HEALTHY"]["membership_changed"] == ["reform>REFORMING"]
    assert told["exploration"]["complete"] is True
    assert {c["verdict"] for c in told["exploration"]["claims"].values()} == {"holds"}
    code, out, err = cli("--json", "~machine.transitions.early_finish")
    assert (code, err) == (2, "")
    claims = json.loads(out)["exploration"]["claims"]
    assert claims["waiting"]["what"] == "HEALTHY waits for nothing"
    assert claims["waiting"]["moves"][0]["transition"] == "begin"
    assert claims["waiting"]["scenario"].startswith("# HEALTHY waits for nothing\n")
    assert (claims["final"]["verdict"], claims["notices"]["verdict"]) == ("broken", "holds")
    code, out, _ = cli("--json", "machine.transitions.reform.dest=REFROMING")
    assert (code, json.loads(out)["exploration"]) == (2, None)
    assert json.loads(out)["problems"][0]["fix"] == "did you mean 'REFORMING'?"


@pytest.mark.parametrize("name", ["any", "same", "NOBODY"])
def test_a_beginning_that_is_no_state(cli, name):
    code, out, _ = cli(f"machine.initial={name}")
    assert (code, f"machine.initial: unknown state '{name}'" in out) == (2, True)
    assert out.endswith("not explored: first the names must be right\n")


def test_what_a_machine_must_not_be(cli):
    """One slip is told once: nothing is claimed of a machine that nobody means."""
    code, out, _ = cli("machine.transitions.restart.conditions=[sunny]")
    assert (code, "unknown condition 'sunny'" in out) == (2, True)
    assert out.endswith("not explored: first the names must be right\n")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--format", "html"], "known: md, text"),
        (["--format"], "--format needs a value"),
        (["--matirx"], "did you mean '--matrix'?"),
        (["machine=elstic"], "did you mean 'elastic'?"),
        (["plugins=[no_such_rules]"], "there is no module 'no_such_rules'"),
    ],
)
def test_bad_input(cli, words, what):
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert what in err


def test_help(cli):
    assert "--matrix" in cli("--help")[1]


def test_a_run_that_is_refused_names_the_check(cli, capsys):
    assert run_command_line(["run", "~machine.transitions.reform", "true"]) == 2
    assert "elastic-fsm check, with the same overrides" in capsys.readouterr().err
    assert run_command_line(["run", "spec.max_restarts=x", "true"]) == 2
    assert "elastic-fsm check" not in capsys.readouterr().err


# -- the matrix ------------------------------------------------------------------------------------


def test_the_matrix_as_text(cli):
    code, out, _ = cli("--matrix")
    assert code == 0
    healthy = out.partition("\nHEALTHY\n")[2].partition("\nUNHEALTHY\n")[0]
    assert healthy.splitlines() == [
        "  action_failed         broken>ABORTING",
        "  membership_changed    reform>REFORMING",
        "  signal_received       told_to_stop?>STOPPING, other_signal",
        "  timer_expired         overran",
        "  worker_exited         all_done?>SETTLING, worker_lost?>UNHEALTHY, worker_done",
    ]


def test_the_matrix_as_markdown(cli):
    code, out, _ = cli("--matrix", "--format", "md", "machine=fail_fast")
    assert code == 0
    head, rule, *rows = [line for line in out.splitlines() if line.startswith("|")]
    assert head.count("|") == rule.count("|")
    assert all(row.count("|") == head.count("|") for row in rows)
    assert "| **barrier_passed** |" in out
    assert "all_done?>SETTLING<br>worker_lost?>UNHEALTHY<br>worker_done" in out


@pytest.mark.parametrize("name", ["elastic", "fail_fast"])
def test_the_matrix_holds_every_arrow_from_everywhere(name):
    spec, events = machine_of(name)
    text = matrix(spec, events)
    for transition in spec.transitions.values():
        expected = sum(
            transition in _until_taken(spec, state, transition.trigger) for state in spec.states
        )
        found = re.findall(rf"\b{transition.name}\b(?!:)", text)
        assert len(found) == expected > 0


def _until_taken(spec, state, event):
    """Those that may be taken: what follows one without conditions never is."""
    found = []
    for transition in spec.candidates(state, event):
        found.append(transition)
        if not transition.guarded:
            break
    return found


def test_with_problems_there_is_no_matrix(cli):
    assert "3 problems" in cli("--matrix", "~machine.transitions.reform")[1]

"""``elastic-fsm check``: everything that can be known of a machine before it runs.

First the static checks, as ``run`` makes them. Then, because that takes a tenth of a second and
needs a screen of its own, what ``run`` does not do: the exploration of everything that can
happen, with a counter-example for each claim that does not hold. The counter-examples are told
also where the static checks have found something: they show what it would have come to. Only a
machine in which names lead nowhere is not explored: it is not the one that somebody means, and
what was said of it would be one slip told twice.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elastic_fsm.binding import bind
from elastic_fsm.checks import check, is_whole, known_events
from elastic_fsm.durations import parse_duration
from elastic_fsm.exploration import CLAIMS, explore
from elastic_fsm.matrix import FORMATS, as_table, matrix
from elastic_fsm.narration import counted
from elastic_fsm.plugins import rules_for
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem, did_you_mean
from elastic_fsm.reading import read_machine
from elastic_fsm.scenario.counterexample import as_scenario
from elastic_fsm.words import Grammar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from elastic_fsm.binding import Rules
    from elastic_fsm.config import Composed
    from elastic_fsm.exploration import Exploration, Finding

__all__ = ["run_verb"]

_GRAMMAR = Grammar(["--matrix", "--json"], {"-n": "4", "-c": "job.yaml", "--format": "md"})

_HELP = """\
elastic-fsm check [-c job.yaml] [overrides]

Is the lifecycle sound? All that the checks before a run find; then everything that can happen is
looked through, with the shortest way to each trouble as a scenario. Exit code 0 or 2.

  --matrix        what happens to each event in each state
  --format md     the matrix in Markdown
  --json          all of it as data
"""


def run_verb(argv: Sequence[str]) -> tuple[str, int]:
    """``elastic-fsm check`` with these words: what it prints, and its exit code (0 or 2).

    Raises :class:`BadInput` when there is no machine to check.
    """
    words = _GRAMMAR.read(argv)
    kind = words.values.get("--format", ["text"])[-1]
    if kind not in FORMATS:
        fix = did_you_mean(kind, FORMATS)
        raise BadInput.of(f"unknown format {kind!r}", where=COMMAND_LINE, fix=fix)
    if "--help" in words.flags:
        return _HELP, 0
    checked = _Checked(*_composed(words.overrides, words.job_file))
    if "--json" in words.flags:
        return json.dumps(checked.as_json(), indent=2) + "\n", checked.exit_code
    if "--matrix" in words.flags and not checked.problems:
        return matrix(checked.spec, checked.events, format=kind), checked.exit_code
    return "\n".join(checked.report()) + "\n", checked.exit_code


def _composed(overrides: Sequence[str], job_file: Path | None) -> tuple[Composed, Any]:
    from elastic_fsm.config import compose

    composed = compose(overrides, job_file=job_file)
    try:
        return composed, rules_for(
            composed.values["plugins"], [job_file.parent] if job_file else []
        )
    except BadInput as error:
        raise BadInput(map(composed.locate, error.problems)) from error


class _Checked:
    """A machine with all that was found out about it."""

    def __init__(self, composed: Composed, registry: Any) -> None:
        values = composed.values
        self.spec, unread = read_machine(values["machine"])
        self.rules, unbound = bind(self.spec, registry, values)
        unsound = check(self.spec, self.rules, registry.answers())
        self.problems: list[Problem] = [
            composed.locate(problem) for problem in unread + unbound + unsound
        ]
        self.events = sorted(known_events(self.spec, _answers(self.rules)))
        self.grace = parse_duration(values["stop"]["grace"])
        self.explored: Exploration | None = None
        if not unread and not unbound and is_whole(self.spec):
            self.explored = explore(self.spec, self.rules, values["stop"]["signals"])

    @property
    def exit_code(self) -> int:
        """2 for anything that is wrong; a machine too large to be looked through is not."""
        sound = self.explored is not None and not self.explored.findings
        return 0 if sound and not self.problems else 2

    # -- for people ------------------------------------------------------------------------------

    def report(self) -> Iterator[str]:
        spec = self.spec
        count = counted(len(self.problems), "problem")
        found = f"{count}:" if self.problems else "no problems"
        yield f"{len(spec.states)} states, {len(spec.transitions)} transitions: {found}"
        for problem in self.problems:
            yield from _indented(str(problem))
        if self.explored is None:
            yield "not explored: first the names must be right"
        else:
            yield from self._exploration(self.explored)

    def _exploration(self, explored: Exploration) -> Iterator[str]:
        size = f"{explored.configurations} configurations"
        more = "" if explored.complete else ", and there are more"
        yield f"explored: {size}, {explored.moves} moves{more}"
        for claim, text in CLAIMS.items():
            if explored.verdict(claim) == "holds":
                yield f"  holds   {text}"
            if explored.verdict(claim) == "unknown":
                yield f"  unknown {text} (looked at {size}, and there are more)"
        for note in self._notes(explored):
            yield f"  note    {note}"
        for claim in (claim for claim in CLAIMS if claim in explored.follows):
            yield f"  BROKEN  {CLAIMS[claim]}: not where nothing is waited for, below"
        for finding in explored.findings.values():
            yield f"  BROKEN  {CLAIMS[finding.claim]}: {self._introduction()}"
            yield from _indented(self._scenario(finding), by=10)

    def _introduction(self) -> str:
        if self.problems:
            return "the shortest way there (it can be played when the problems above are mended):"
        return "the shortest way there:"

    def _notes(self, explored: Exploration) -> Iterator[str]:
        if not self.problems and (never := self._never_taken(explored)):
            yield f"never taken: {', '.join(never)}"
        for state, transitions in explored.cut_off.items():
            names = ", ".join(sorted(transitions))
            yield f"workers that still run when {state} is entered (by {names}) are killed at once"

    def _never_taken(self, explored: Exploration) -> list[str]:
        """Transitions that no configuration allows, as far as all of them are known."""
        names = self.spec.transitions if explored.complete else ()
        return [name for name in names if name not in explored.taken]

    # -- for programs ----------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """Everything of the report, and the matrix, as plain values."""
        return {
            "states": len(self.spec.states),
            "transitions": len(self.spec.transitions),
            "problems": [problem._asdict() for problem in self.problems],
            "exploration": self.explored and self._exploration_as_json(self.explored),
            "matrix": as_table(self.spec, self.events),
        }

    def _exploration_as_json(self, explored: Exploration) -> dict[str, Any]:
        return {
            "configurations": explored.configurations,
            "moves": explored.moves,
            "complete": explored.complete,
            "claims": {claim: self._claim_as_json(claim, explored) for claim in CLAIMS},
            "never_taken": self._never_taken(explored),
            "workers_killed_in": {s: sorted(names) for s, names in explored.cut_off.items()},
        }

    def _claim_as_json(self, claim: str, explored: Exploration) -> dict[str, Any]:
        told: dict[str, Any] = {"claim": CLAIMS[claim], "verdict": explored.verdict(claim)}
        if finding := explored.findings.get(claim):
            told["what"] = finding.what
            told["moves"] = [asdict(move) for move in finding.moves]
            told["scenario"] = self._scenario(finding)
        return told

    def _scenario(self, finding: Finding) -> str:
        return as_scenario(finding, self.spec, self.rules, grace=self.grace)


def _answers(rules: Rules) -> set[str]:
    return {
        event for action in rules.actions.values() for event in (*action.answers, *action.tells)
    }


def _indented(text: str, by: int = 2) -> Iterator[str]:
    yield from (" " * by + line for line in text.splitlines())

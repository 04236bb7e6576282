"""``elastic-fsm check``: everything that can be known of a machine before it runs.

First the static checks, as ``run`` makes them. Then, because that takes a tenth of a second and
needs a screen of its own, what ``run`` does not do: the exploration of everything that can
happen, with a counter-example for each claim that does not hold. The counter-examples are told
also where the static checks have found something: they show what it would have come to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.binding import bind
from elastic_fsm.checks import check, known_events
from elastic_fsm.declaration import ANY, SAME
from elastic_fsm.exploration import CLAIMS, explore
from elastic_fsm.matrix import FORMATS, matrix
from elastic_fsm.plugins import rules_for
from elastic_fsm.problems import BadInput, Problem, did_you_mean
from elastic_fsm.reading import read_machine
from elastic_fsm.scenario.counterexample import as_scenario
from elastic_fsm.words import split_words, take_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from elastic_fsm.binding import Rules
    from elastic_fsm.config import Composed
    from elastic_fsm.declaration import MachineSpec

__all__ = ["run_verb"]


_HELP = """\
elastic-fsm check [-c job.yaml] [overrides]

Is the lifecycle sound? All that the checks before a run find; then everything that can happen is
looked through, with the shortest way to each trouble as a scenario. Exit code 0 or 2.

  --matrix        what happens to each event in each state
  --format md     the matrix in Markdown
"""


def run_verb(argv: Sequence[str]) -> tuple[str, int]:
    """``elastic-fsm check`` with these words: what it prints, and its exit code (0 or 2).

    Raises :class:`BadInput` when there is no machine to check.
    """
    options, rest = take_options(argv, flags=("--matrix",), valued=("--format",))
    kind = options.get("--format", "text")
    if kind not in FORMATS:
        fix = did_you_mean(kind, FORMATS)
        raise BadInput.of(f"unknown format {kind!r}", where="command line", fix=fix)
    words = split_words(rest)
    words.refuse_command()
    if "help" in words.flags:
        return _HELP, 0
    checked = _Checked(*_composed(words.overrides, words.job_file))
    if "--matrix" in options and not checked.problems:
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
        self.spec, problems = read_machine(values["machine"])
        self.rules, unbound = bind(self.spec, registry, values)
        problems += unbound + check(self.spec, self.rules, registry.answers())
        self.problems: list[Problem] = [composed.locate(problem) for problem in problems]
        self.events = sorted(known_events(self.spec, _answers(self.rules)))
        self.explored = explore(self.spec, self.rules) if _is_whole(self.spec) else None

    @property
    def exit_code(self) -> int:
        broken = self.explored is None or self.explored.findings or not self.explored.complete
        return 2 if self.problems or broken else 0

    def report(self) -> Iterator[str]:
        spec = self.spec
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        found = f"{count}:" if self.problems else "no problems"
        yield f"{len(spec.states)} states, {len(spec.transitions)} transitions: {found}"
        for problem in self.problems:
            yield from _indented(str(problem))
        yield from self._exploration()

    def _exploration(self) -> Iterator[str]:
        if self.explored is None:
            yield "not explored: first the names of states must be right"
            return
        size = f"{self.explored.configurations} configurations, {self.explored.moves} moves"
        yield f"explored: {size}" + ("" if self.explored.complete else ", and there are more")
        for claim, text in CLAIMS.items():
            if claim not in self.explored.findings:
                yield f"  holds   {text}"
        for claim, finding in self.explored.findings.items():
            yield f"  BROKEN  {CLAIMS[claim]}: the shortest way there, as a scenario:"
            yield from _indented(as_scenario(finding, self.spec, self.rules), by=10)


def _answers(rules: Rules) -> set[str]:
    return {
        event for action in rules.actions.values() for event in (*action.answers, *action.tells)
    }


def _is_whole(spec: MachineSpec) -> bool:
    """Whether every arrow begins and ends at a state."""
    ends = {end for t in spec.transitions.values() for end in (*t.source, t.dest, spec.initial)}
    return bool(spec.states) and ends - {None, ANY, SAME} <= set(spec.states)


def _indented(text: str, by: int = 2) -> Iterator[str]:
    yield from (" " * by + line for line in text.splitlines())

"""How often each state was entered, also in lines that were dropped."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from elastic_fsm.declaration import SAME
from elastic_fsm.graph.drawing import read_spec
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.declaration import TransitionSpec
    from elastic_fsm.journal_reader import JournalFile

__all__ = ["visits_of"]


def visits_of(journal: JournalFile) -> Counter[str]:
    """By state. Of dropped lines the journal keeps how often each transition was taken, which says
    what was entered, unless a transition enters anew whichever state it is taken in."""
    steps = [record for record in journal.records if record.get("outcome") == "step"]
    visits = Counter(step["dest"] for step in steps if step["entered"])
    visits[str(journal.header["machine"].get("initial"))] += 1
    if journal.gaps:
        seen = Counter(step["transition"] for step in steps)
        entered = _entered(journal.header["machine"])
        for name, count in (Counter(journal.summary.transitions) - seen).items():
            if state := entered.get(name):
                visits[state] += count
    return visits


def _entered(machine: Mapping[str, Any]) -> dict[str, str | None]:
    """What each transition enters, as far as a declaration says it."""
    try:
        spec = read_spec(machine)
    except BadInput:  # whoever told the run has said so
        return {}
    return {name: _target(transition) for name, transition in spec.transitions.items()}


def _target(transition: TransitionSpec) -> str | None:
    if transition.dest != SAME:
        return transition.dest
    only = len(transition.source) == 1 and not transition.from_any
    return transition.source[0] if only else None

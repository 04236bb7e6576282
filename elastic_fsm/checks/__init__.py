"""What must hold for any declaration, told before anything starts.

Every check is a small generator over the declaration; all are run, so that a user sees all
problems at once. One slip is one problem: once a misspelt state or event has been reported, the
checks that follow read it as what it probably means, and where that cannot be guessed, nothing
is said about which states can be reached, nor, of a transition that cannot be read, about what is
missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.checks import names, reactions, ways
from elastic_fsm.checks.context import Context, is_whole
from elastic_fsm.events import CATALOGUE

if TYPE_CHECKING:
    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec
    from elastic_fsm.problems import Problem

__all__ = ["check", "is_whole", "known_events"]


def known_events(spec: MachineSpec, answers: set[str]) -> set[str]:
    """Every event that can occur: the agent's own, answers of actions, timeouts of states."""
    timeouts = {event for state in spec.states.values() for event in state.timeouts}
    return set(CATALOGUE) | answers | timeouts


def check(spec: MachineSpec, rules: Rules, answers: set[str]) -> list[Problem]:
    """All that is wrong with the declaration as a whole; empty when it may run.

    ``answers`` are the events that registered actions may be answered with.
    """
    events = known_events(spec, answers)
    written = Context(spec, rules, events)
    found = [problem for one in names.CHECKS for problem in one(written)]
    meant = Context(names.as_meant(spec, events), rules, events) if found else written
    return found + [p for one in (*ways.CHECKS, *reactions.CHECKS) for p in one(meant)]

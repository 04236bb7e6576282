"""A declaration, with what the checks derive from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.declaration import ANY, SAME
from elastic_fsm.events import CATALOGUE
from elastic_fsm.reading import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec, TransitionSpec
    from elastic_fsm.problems import Problem

    Check = Callable[["Context"], Iterator[Problem]]

__all__ = ["Check", "Context", "is_whole"]


class Context:
    """The declaration, with what the checks derive from it."""

    def __init__(self, spec: MachineSpec, rules: Rules, events: set[str]) -> None:
        self.spec = spec
        self.rules = rules
        self.events = events
        self.notices = [kind.name for kind in CATALOGUE.values() if kind.notice]
        self.open_states = [state for state in spec.states.values() if not state.final]
        self.is_whole = is_whole(spec)
        self.is_read = all(map(_has_a_place, spec.transitions.values()))

    def successors(self, state: str) -> set[str]:
        """States that one transition away from ``state`` may lead to."""
        targets = {t.target(state) for t in self.taken_from(state)}
        return targets & set(self.spec.states)

    def taken_from(self, state: str) -> list[TransitionSpec]:
        """Transitions that can be taken in a state, shadowed ones left out."""
        found = []
        for trigger in self.spec.triggers():
            for transition in self.spec.candidates(state, trigger):
                found.append(transition)
                if not transition.guarded:
                    break
        return found

    def has_fallback(self, state: str, event: str) -> bool:
        """Whether something declared happens to an event, whatever the conditions say."""
        candidates = self.spec.candidates(state, event)
        ignored = event in self.spec.states[state].ignores
        return ignored or any(not t.guarded for t in candidates)


def _has_a_place(t: TransitionSpec) -> bool:
    """Whether it is known to what a transition reacts; else it may be any reaction that is missing.

    One with an empty list of sources reacts to nothing, as was said.
    """
    return bool(t.trigger) and (bool(t.source) or t.dest != NOWHERE)


def is_whole(spec: MachineSpec) -> bool:
    """Whether the machine begins, and every arrow begins and ends, at a state."""
    ends = {end for t in spec.transitions.values() for end in (*t.source, t.dest)}
    return {spec.initial, *ends - {None, ANY, SAME}} <= set(spec.states)

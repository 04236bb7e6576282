"""Does it end? What is asked of all configurations together, once they are known.

*Without help from outside*: only answers, timers and the ends of workers are counted upon, and
each that may come again and again is taken to come at last. But no timer is faster than an
answer, and none than a shorter one, so that a state that is entered again with each answer does
not count as left by its timer.

*By a stop signal*: after it come only answers and timers, and whatever may come of them must
lead to a final state; workers run on, and other nodes may answer or not. Where nothing more has
to come, the signal is repeated until it changes something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastic_fsm.exploration.model import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from elastic_fsm.declaration import MachineSpec
    from elastic_fsm.exploration.happenings import Happenings
    from elastic_fsm.exploration.model import Configuration, Move, Outcome

    Ways = Mapping[Configuration, Sequence[Outcome]]

__all__ = ["Endings", "Endless"]


@dataclass(frozen=True, slots=True)
class Endless:
    """A configuration, and moves from there, after which the run does not end."""

    at: Configuration
    moves: tuple[Move, ...]
    what: str


class Endings:
    """``outcomes`` holds every configuration, the nearest first, with all that may come of it."""

    def __init__(self, spec: MachineSpec, happenings: Happenings, outcomes: Ways) -> None:
        self.spec = spec
        self.happenings = happenings
        self.outcomes = outcomes
        self.ends = {c for c in outcomes if spec.states[c.state].final or c.left < 0}
        waits = happenings.waits_for_something
        self.stuck = {c for c in outcomes if c not in self.ends and not waits(c)}

    # -- without help from outside ---------------------------------------------------------------

    def trap(self, known: set[Configuration]) -> Endless | None:
        """The nearest configuration from which nothing leads to an end, or to a ``known`` one."""
        ways = {here: self._by_itself(here) for here in self.outcomes}
        ending = _leading_to(self.ends | known, ways)
        trap = next((here for here in ways if here not in ending), None)
        if trap is None:
            return None
        moves, what = _endless(trap, ways, ending)
        return Endless(trap, moves, f"no final state can be reached: {what}")

    def _by_itself(self, here: Configuration) -> list[Outcome]:
        """What may come next when nobody helps and no action fails."""
        answered = any(map(self.happenings.events_of, here.asked))
        causes = {Cause.ANSWER, Cause.EXIT} | (set() if answered else {Cause.TIMER})
        return list(self._coming(here, causes))

    def _coming(self, here: Configuration, causes: set[Cause]) -> Iterator[Outcome]:
        first = self.happenings.first_timers(here)
        for outcome in self.outcomes[here]:
            late = outcome.cause is Cause.TIMER and outcome.move.event not in first
            expected = (here.broken or outcome.cause in causes) and not late
            if expected and not outcome.move.failed:
                yield outcome

    # -- by a stop signal ------------------------------------------------------------------------

    def deaf_to_a_stop(self, known: set[Configuration]) -> Endless | None:
        """The nearest configuration in which a stop signal may come to nothing, nor to a ``known``
        one."""
        for signal in self.happenings.stops:
            ways = self._ways_after(signal)
            ending = _sure_to_lead_to(self.ends | known, ways)
            for here in self.outcomes:
                for outcome in self._told(here, signal):
                    if outcome.after not in ending:
                        moves, what = _endless(outcome.after, ways, ending)
                        what = f"{signal} does not end the run: {what}"
                        return Endless(here, (outcome.move, *moves), what)
        return None

    def _told(self, here: Configuration, signal: str) -> Iterator[Outcome]:
        for outcome in self.outcomes[here]:
            of_signal = outcome.move.data.get("signal") == signal
            if outcome.cause is Cause.OUTSIDE and of_signal and not outcome.move.failed:
                yield outcome

    def _ways_after(self, signal: str) -> dict[Configuration, list[Outcome]]:
        """What may come after a stop signal; nothing, where the run then stays for ever."""
        ways: dict[Configuration, list[Outcome]] = {}
        todo = [outcome.after for here in self.outcomes for outcome in self._told(here, signal)]
        while todo:
            here = todo.pop()
            if here not in ways:
                ways[here] = self._after(here, signal)
                todo += [outcome.after for outcome in ways[here]]
        return ways

    def _after(self, here: Configuration, signal: str) -> list[Outcome]:
        answers = self._coming(here, {Cause.ANSWER, Cause.TIMER})
        coming = [o for o in answers if o.after != here or self._enters(o)]
        if here.broken or here.timers or self.happenings.is_answered(here):
            return coming
        again = [outcome for outcome in self._told(here, signal) if outcome.after != here]
        return [*coming, *again] if again else []

    def _enters(self, outcome: Outcome) -> bool:
        transition = self.spec.transitions.get(outcome.move.transition)
        return transition is not None and transition.dest is not None


def _before(ways: Ways) -> dict[Configuration, set[Configuration]]:
    found: dict[Configuration, set[Configuration]] = {}
    for here, outcomes in ways.items():
        for outcome in outcomes:
            found.setdefault(outcome.after, set()).add(here)
    return found


def _leading_to(ends: Iterable[Configuration], ways: Ways) -> set[Configuration]:
    before = _before(ways)
    seen, todo = set(ends), list(ends)
    while todo:
        new = before.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return seen


def _sure_to_lead_to(ends: set[Configuration], ways: Ways) -> set[Configuration]:
    """Those from which every way leads there."""
    before = _before(ways)
    open_ways = {here: {outcome.after for outcome in ways[here]} for here in ways}
    seen = ends & set(ways)
    todo = list(seen)
    while todo:
        done = todo.pop()
        for here in before.get(done, set()) - seen:
            open_ways[here].discard(done)
            if not open_ways[here]:
                seen.add(here)
                todo.append(here)
    return seen


def _endless(
    here: Configuration, ways: Ways, ending: set[Configuration]
) -> tuple[tuple[Move, ...], str]:
    """One way on which the run does not end, until it stays or comes back, and what that is."""
    moves: list[Move] = []
    passed = [here]
    while True:
        here = passed[-1]
        endless = [outcome for outcome in ways[here] if outcome.after not in ending]
        if not endless:
            return tuple(moves), f"in {here.state} nothing more has to come"
        on = min(endless, key=lambda outcome: outcome.after == here)
        moves.append(on.move)
        if on.after in passed:
            states = dict.fromkeys(c.state for c in passed[passed.index(on.after) :])
            return tuple(moves), f"it goes round in {', '.join(states)}"
        passed.append(on.after)

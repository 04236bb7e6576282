"""Does it end? What is asked of all configurations together, once they are known.

*Without help from outside*: only answers, timers and the ends of workers are counted upon, and
each that may come again and again is taken to come at last. But no timer is faster than an
answer, so that a state that is entered again with each answer does not count as left by its
timer; and which of several timers comes first is not chosen in our favour.

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

    Ways = Mapping[Configuration, Sequence[Sequence[Outcome]]]
    """What may come of each configuration: lists, of which one is given, and in each what may come
    at last."""

__all__ = ["Endings", "Endless"]


@dataclass(frozen=True, slots=True)
class Endless:
    """A configuration, and moves from there, after which the run does not end."""

    at: Configuration
    moves: tuple[Move, ...]
    what: str


class Endings:
    """``outcomes`` holds every configuration, the nearest first, with all that may come of it."""

    def __init__(
        self,
        spec: MachineSpec,
        happenings: Happenings,
        outcomes: Mapping[Configuration, Sequence[Outcome]],
    ) -> None:
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

    def _by_itself(self, here: Configuration) -> list[list[Outcome]]:
        """What may come next when nobody helps and no action fails, by the timer that is first."""
        coming = list(self._coming(here, {Cause.ANSWER, Cause.EXIT}))
        timed: dict[str, list[Outcome]] = {}
        if not any(map(self.happenings.events_of, here.asked)):
            for outcome in self._coming(here, {Cause.TIMER}):
                timed.setdefault(outcome.move.event, []).append(outcome)
        return [coming + outcomes for outcomes in timed.values()] or [coming]

    def _coming(self, here: Configuration, causes: set[Cause]) -> Iterator[Outcome]:
        for outcome in self.outcomes[here]:
            if (here.broken or outcome.cause in causes) and not outcome.move.failed:
                yield outcome

    # -- by a stop signal ------------------------------------------------------------------------

    def deaf_to_a_stop(self, known: set[Configuration]) -> Endless | None:
        """The nearest configuration in which a stop signal may come to nothing, nor to a ``known``
        one."""
        for signal in self.happenings.stops:
            ways = self._ways_after(signal)
            ending = _leading_to(self.ends | known, ways)
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

    def _ways_after(self, signal: str) -> dict[Configuration, list[list[Outcome]]]:
        """What may come after a stop signal, all of it given; nothing, where the run then stays for
        ever."""
        ways: dict[Configuration, list[list[Outcome]]] = {}
        todo = [outcome.after for here in self.outcomes for outcome in self._told(here, signal)]
        while todo:
            here = todo.pop()
            if here not in ways:
                coming = self._after(here, signal)
                ways[here] = [[outcome] for outcome in coming]
                todo += [outcome.after for outcome in coming]
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


def _leading_to(ends: Iterable[Configuration], ways: Ways) -> set[Configuration]:
    """Those from which a way leads there, whatever is given."""
    before: dict[Configuration, set[tuple[Configuration, int]]] = {}
    for here, given in ways.items():
        for number, outcomes in enumerate(given):
            for outcome in outcomes:
                before.setdefault(outcome.after, set()).add((here, number))
    unsure = {here: set(range(len(given))) for here, given in ways.items()}
    seen, todo = set(ends), list(ends)
    while todo:
        for here, number in before.get(todo.pop(), ()):
            unsure[here].discard(number)
            if not unsure[here] and here not in seen:
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
        lost = [given for given in ways[here] if ending.isdisjoint(o.after for o in given)]
        endless = [outcome for outcomes in lost for outcome in outcomes]
        if not endless:
            return tuple(moves), f"in {here.state} nothing more has to come"
        on = min(endless, key=lambda outcome: outcome.after == here)
        moves.append(on.move)
        if on.after in passed:
            states = dict.fromkeys(c.state for c in passed[passed.index(on.after) :])
            return tuple(moves), f"it goes round in {', '.join(states)}"
        passed.append(on.after)

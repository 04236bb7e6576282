"""What may happen in a configuration, and what comes of it.

This is the model of the world in an exploration: who answers what, when workers end, which
timers are armed. What actions do stands in ``effects``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from elastic_fsm.binding import Fixed
from elastic_fsm.events import CATALOGUE
from elastic_fsm.exploration.choices import choices, kinds_of_signals
from elastic_fsm.exploration.effects import ENTER_BARRIER, JOIN, START, STOP, act
from elastic_fsm.exploration.model import Cause, Configuration, Move, Outcome, Workers
from elastic_fsm.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.binding import Delay, Registered, Rules
    from elastic_fsm.declaration import MachineSpec, TransitionSpec, Use

__all__ = ["Happenings"]

_LEAVES_OPEN = {"spare_assigned"}
_OF_OTHER_NODES = {JOIN, ENTER_BARRIER}
_FAILED: Mapping[str, Any] = {"name": "an action", "error": "it raised"}


class Happenings:
    """All that may happen to one machine. ``stop_signals`` are those that are to end the run."""

    def __init__(self, spec: MachineSpec, rules: Rules, stop_signals: Sequence[str]) -> None:
        self.spec = spec
        self.rules = rules
        self.notices = [kind.name for kind in CATALOGUE.values() if kind.notice]
        self.answers = {a.name: a.answers for a in rules.actions.values()}
        self.tells = {a.name: a.tells for a in rules.actions.values()}
        self.spans = {
            state: {event: _span(delay) for event, delay in delays.items()}
            for state, delays in rules.timeouts.items()
        }
        self.stops = kinds_of_signals(rules, stop_signals)
        self.heard = rules.heard(stop_signals)
        others = (*sorted(rules.signals), "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT")
        self.signals = kinds_of_signals(rules, (*stop_signals, *others))

    def beginnings(self, left: int) -> Iterator[Configuration]:
        """Nothing has happened, with so many restarts left."""
        initial = self.spec.initial
        for timers, failed in self._armings(initial):
            yield Configuration(initial, frozenset({"run"}), timers, left, broken=bool(failed))

    # -- what may come ---------------------------------------------------------------------------

    def outcomes(self, here: Configuration) -> Iterator[Outcome]:
        """Everything that may come next."""
        if here.broken:
            after = replace(here, broken=False)
            yield from self._steps(after, "action_failed", _FAILED, Cause.ERROR)
            return
        for name in sorted(here.asked):
            yield from self._answers(here, name)
        for name in self._first_timers(here):
            after = replace(here, timers=here.timers - {name})
            yield from self._steps(after, name, {}, Cause.TIMER)
        if here.workers.running:
            yield from self._exits(here)
        for signal in self.signals:
            yield from self._steps(here, "signal_received", {"signal": signal}, Cause.OUTSIDE)
        yield from self._steps(here, "membership_changed", {}, Cause.OUTSIDE)
        yield from self._steps(here, "timer_expired", {}, Cause.OUTSIDE)
        yield from self._steps(here, "action_failed", _FAILED, Cause.ERROR)

    def _answers(self, here: Configuration, name: str) -> Iterator[Outcome]:
        for event in self.events_of(name):
            if event == "worker_exited":
                continue  # of workers that run, below; of one that cannot be started, here
            if event == "workers_stuck" and here.workers is Workers.NONE and START in self.answers:
                continue  # whoever was never started can always be stopped
            asked = here.asked if event in _LEAVES_OPEN else here.asked - {name}
            after = replace(here, asked=asked)
            if event == "workers_stopped":
                gone = Workers.ENDED if here.workers.running else here.workers
                after = replace(after, workers=gone, asked=asked - {START})
            if event == "workers_failed":  # of the coarse machine, which looks at its workers
                after = _failed(after)
            yield from self._steps(after, event, {}, Cause.ANSWER, is_stop=name == STOP)
        if name == START and here.workers.running:
            after = replace(_failed(here), asked=here.asked - {name}, workers=Workers.HURT)
            data = {"exit_code": 127, "reason": "cannot be started", "last": False}
            yield from self._steps(after, "worker_exited", data, Cause.ANSWER)

    def events_of(self, name: str) -> tuple[str, ...]:
        """The events that may follow from what was asked."""
        if name == "run":
            return ("run_requested",)
        return (*self.answers.get(name, ()), *self.tells.get(name, ()))

    def _exits(self, here: Configuration) -> Iterator[Outcome]:
        """A worker ends: well, badly or because it was stopped; others run, or it was the last."""
        kinds = [(0, False), (1, False)] + [(-15, True)] * (STOP in here.asked)
        for last in (False, True):
            for code, stopped in kinds:
                good = code == 0 and here.workers is Workers.RUN
                running = Workers.RUN if good else Workers.HURT
                ended = Workers.DONE if good else Workers.ENDED
                after = _failed(here) if code == 1 else here
                after = replace(after, workers=ended if last else running)
                data = {"exit_code": code, "stopped_by_agent": stopped, "last": last}
                yield from self._steps(after, "worker_exited", data, Cause.EXIT)

    def _first_timers(self, here: Configuration) -> list[str]:
        """The timers that may fire next: all began together, and of equal ones the first declared
        fires first. What is answered at once comes before them all."""
        if "run" in here.asked or (STOP in here.asked and here.workers is Workers.NONE):
            return []
        armed = [name for name in self.spans[here.state] if name in here.timers]
        spans = [(self.spans[here.state][name], place) for place, name in enumerate(armed)]
        latest = min(((most, place) for (_, most), place in spans), default=(math.inf, 0))
        twins = self._twins(here.state, armed)
        coming = [armed[place] for (least, _), place in spans if (least, place) <= latest]
        return [name for name in coming if name not in twins]

    def _twins(self, state: str, armed: Sequence[str]) -> set[str]:
        """Timers that take our own delay, as one does that was declared before them: whatever it
        is then, it is the same. A plugin's delay may be another one each time it is asked."""
        delays = self.rules.timeouts.get(state, {})
        ours = [name for name in armed if _is_ours(delays[name])]
        return set(ours[1:])

    # -- what can be counted upon ----------------------------------------------------------------

    def waits_for_something(self, here: Configuration) -> bool:
        """Whether something that the state reacts to is sure to come, without help from outside."""
        sure = [*here.timers, *(event for name in here.asked for event in self.events_of(name))]
        if here.workers.running:
            sure.append("worker_exited")
        return here.broken or any(self.spec.candidates(here.state, event) for event in sure)

    def is_answered(self, here: Configuration) -> bool:
        """Whether an answer is sure to come, even if other nodes say nothing."""
        own = here.asked - _OF_OTHER_NODES
        return any(name == "run" or self.answers.get(name) for name in own)

    # -- what comes of it ------------------------------------------------------------------------

    def _steps(
        self,
        here: Configuration,
        event: str,
        data: Mapping[str, Any],
        cause: Cause,
        *,
        is_stop: bool = False,
    ) -> Iterator[Outcome]:
        candidates = self.spec.candidates(here.state, event)
        for transition, chosen in choices(self.rules, candidates, here, event, data):
            move = Move(event, data, chosen=tuple(chosen.items()), dest=here.state)
            outcome = Outcome(move, here, cause)
            if transition is None:
                yield self._not_taken(outcome, is_stop=is_stop)
            else:
                yield from self._taken(outcome, transition)
            if chosen:  # a condition may raise, too: the event is lost
                raising = replace(move, chosen=(), failed=next(reversed(chosen)))
                yield Outcome(raising, replace(here, broken=True), cause)

    def _not_taken(self, outcome: Outcome, *, is_stop: bool) -> Outcome:
        event, state = outcome.move.event, outcome.after.state
        if event in self.spec.states[state].ignores:
            return outcome
        if event in self.notices:
            what = f"{event} comes in {state}, where nothing is said about it"
            outcome.breaks("notices", what)
        elif is_stop:
            what = f"{event}, the answer to a stop, comes in {state}: nobody hears it"
            outcome.breaks("stops", what)
        return outcome

    def _taken(self, begun: Outcome, transition: TransitionSpec) -> Iterator[Outcome]:
        here = begun.after
        move = replace(begun.move, transition=transition.name, dest=transition.target(here.state))
        if transition.dest is None:
            outcome = Outcome(move, here, begun.cause)
            yield from self._acting(outcome, (*transition.before, *transition.after))
            return
        owes = here.owes and move.event != "membership_changed"
        states = self.spec.states
        inner = (*states[here.state].on_exit, *states[move.dest].on_enter)
        uses = (*transition.before, *inner, *transition.after)
        for timers, failed in self._armings(move.dest):
            after = replace(here, state=move.dest, timers=timers, owes=owes, broken=bool(failed))
            outcome = Outcome(replace(move, failed=failed), after, begun.cause)
            yield from self._acting(outcome, uses)

    def _acting(self, outcome: Outcome, uses: Sequence[Use]) -> Iterator[Outcome]:
        """The step as it was meant, and, before it, each way in which one of its actions fails."""
        final = self.spec.states[outcome.move.dest].final
        for use in uses:
            action = self.rules.actions.get(use)
            if action is None or action.optional:
                continue
            if not final and not outcome.broken_claim:
                failing = replace(outcome.move, failed=action.name)
                yield Outcome(failing, replace(outcome.after, broken=True), outcome.cause)
            act(outcome, action.name, asks=bool(self.events_of(action.name)))
        yield outcome

    def _armings(self, state: str) -> list[tuple[frozenset[str], str]]:
        """Each way in which the timers of a state may be armed, with the delay that raised."""
        delays = self.rules.timeouts.get(state, {})
        fixed = {n for n, d in delays.items() if isinstance(d, Fixed) and d.seconds is not None}
        registered = {n: d.rule for n, d in delays.items() if not isinstance(d, Fixed)}
        ways = [frozenset(fixed | set(registered))]
        for name, rule in registered.items():
            if rule.may_be_never:
                ways += [way - {name} for way in ways]
        raising = [(ways[0] - {name}, rule.name) for name, rule in registered.items()]
        return [*((way, "") for way in ways), *raising]


def _is_ours(delay: Delay) -> TypeGuard[Registered]:
    return not isinstance(delay, Fixed) and delay.rule.name == "restart_delay"


def _span(delay: Delay) -> tuple[float, float]:
    """The least and the most seconds that a timer may take.

    Our own delay lies between what it is before any restart and what it is after all of them; any
    other may be whatever it likes.
    """
    if isinstance(delay, Fixed):
        seconds = math.inf if delay.seconds is None else delay.seconds
        return seconds, seconds
    if not _is_ours(delay):
        return 0.0, math.inf
    budget = delay.settings["spec"]["max_restarts"]
    known = [delay(Facts(max_restarts=budget, restarts_left=left)) or 0.0 for left in (0, budget)]
    return min(known), max(known)


def _failed(here: Configuration) -> Configuration:
    """A worker failed; while the group is being stopped that is no reason for a restart."""
    return here if STOP in here.asked else replace(here, owes=True)

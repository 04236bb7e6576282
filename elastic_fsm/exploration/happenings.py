"""What may happen in a configuration, and what comes of it.

This is the model of the world in an exploration: who answers what, when workers end, what an
action does to a configuration. It knows our own actions by name; any other one only asks, and is
answered with what it declares.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import CATALOGUE
from elastic_fsm.exploration.choices import choices, kinds_of_signals
from elastic_fsm.exploration.model import Configuration, Move, Outcome, Workers
from elastic_fsm.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec, TransitionSpec, Use

__all__ = ["Happenings"]

_STOP = "stop_workers"
_START = "start_workers"
# Their answers carry the attempt, so that a new attempt makes them stale.
_OF_THE_ATTEMPT = {_STOP, _START, "join_rendezvous", "enter_exit_barrier"}
_LEAVES_OPEN = {"spare_assigned"}
_FAILED: Mapping[str, Any] = {"name": "an action", "error": "it raised"}


class Happenings:
    """All that may happen to one machine."""

    def __init__(self, spec: MachineSpec, rules: Rules) -> None:
        self.spec = spec
        self.rules = rules
        self.notices = [kind.name for kind in CATALOGUE.values() if kind.notice]
        self.answers = {a.name: (*a.answers, *a.tells) for a in rules.actions.values()}
        self.signals = kinds_of_signals(rules)

    def beginning(self, left: int) -> Configuration:
        """Nothing has happened, with so many restarts left."""
        initial = self.spec.initial
        return Configuration(initial, frozenset({"run"}), self.timers(initial), left)

    # -- what may come ---------------------------------------------------------------------------

    def outcomes(self, here: Configuration) -> Iterator[Outcome]:
        if here.broken:
            yield from self._steps(replace(here, broken=False), "action_failed", _FAILED)
            return
        for name in sorted(here.asked):
            yield from self._answers(here, name)
        for name in sorted(here.timers):
            yield from self._steps(replace(here, timers=here.timers - {name}), name, {})
        if here.workers.running:
            yield from self._exits(here)
        for signal in self.signals:
            yield from self._steps(here, "signal_received", {"signal": signal})
        yield from self._steps(here, "membership_changed", {})
        yield from self._steps(here, "action_failed", _FAILED)

    def _answers(self, here: Configuration, name: str) -> Iterator[Outcome]:
        for event in self._events_of(name):
            if event == "worker_exited":
                continue  # of workers that run, below; of one that cannot be started, here
            asked = here.asked if event in _LEAVES_OPEN else here.asked - {name}
            after = replace(here, asked=asked)
            if event == "workers_stopped":
                gone = Workers.ENDED if here.workers.running else here.workers
                after = replace(after, workers=gone, asked=asked - {_START})
            yield from self._steps(after, event, {}, is_stop=name == _STOP)
        if name == _START and here.workers.running:
            after = replace(here, asked=here.asked - {name}, workers=Workers.HURT)
            data = {"exit_code": 127, "reason": "cannot be started", "last": False}
            yield from self._steps(after, "worker_exited", data)

    def _events_of(self, name: str) -> tuple[str, ...]:
        if name == "run":
            return ("run_requested",)
        return self.answers.get(name, ())

    def _exits(self, here: Configuration) -> Iterator[Outcome]:
        """A worker ends: well, badly or because it was stopped; others run, or it was the last."""
        kinds = [(0, False), (1, False)] + [(-15, True)] * (_STOP in here.asked)
        for last in (False, True):
            for code, stopped in kinds:
                good = code == 0 and here.workers is Workers.RUN
                running = Workers.RUN if good else Workers.HURT
                ended = Workers.DONE if good else Workers.ENDED
                after = replace(here, workers=ended if last else running)
                data = {"exit_code": code, "stopped_by_agent": stopped, "last": last}
                yield from self._steps(after, "worker_exited", data)

    def waits_for_something(self, here: Configuration) -> bool:
        """Whether something that the state reacts to is sure to come, without help from outside."""
        sure = [*here.timers, *(event for name in here.asked for event in self._events_of(name))]
        if here.workers.running:
            sure.append("worker_exited")
        return here.broken or any(self.spec.candidates(here.state, event) for event in sure)

    # -- what comes of it ------------------------------------------------------------------------

    def _steps(
        self,
        here: Configuration,
        event: str,
        data: Mapping[str, Any],
        *,
        is_stop: bool = False,
    ) -> Iterator[Outcome]:
        candidates = self.spec.candidates(here.state, event)
        for transition, chosen in choices(self.rules, candidates, here, event, data):
            move = Move(event, data, chosen=tuple(chosen.items()), dest=here.state)
            if transition is None:
                yield self._not_taken(here, move, is_stop=is_stop)
            else:
                yield from self._taken(here, move, transition)
            if chosen:  # a condition may raise, too: the event is lost
                raising = replace(move, chosen=(), failed=next(reversed(chosen)))
                yield Outcome(raising, replace(here, broken=True))

    def _not_taken(self, here: Configuration, move: Move, *, is_stop: bool) -> Outcome:
        if move.event in self.spec.states[here.state].ignores:
            return Outcome(move, here)
        if move.event in self.notices:
            what = f"{move.event} comes in {here.state}, where nothing is said about it"
            return Outcome(move, here, "notices", what)
        if is_stop:
            what = f"{move.event}, the answer to a stop, comes in {here.state}: nobody hears it"
            return Outcome(move, here, "stops", what)
        return Outcome(move, here)

    def _taken(
        self, here: Configuration, move: Move, transition: TransitionSpec
    ) -> Iterator[Outcome]:
        dest = transition.target(here.state)
        move = replace(move, transition=transition.name, dest=dest)
        inner: tuple[Use, ...] = ()
        after = replace(here, state=dest)
        if transition.dest is not None:
            inner = (*self.spec.states[here.state].on_exit, *self.spec.states[dest].on_enter)
            after = replace(after, timers=self.timers(dest))
        final = self.spec.states[dest].final
        outcome = Outcome(move, after)
        for use in (*transition.before, *inner, *transition.after):
            action = self.rules.actions.get(use)
            if action is None or action.optional:
                continue
            if not final and not outcome.broken_claim:
                failing = replace(outcome.move, failed=action.name)
                yield Outcome(failing, replace(outcome.after, broken=True))
            self._act(outcome, action.name)
        yield outcome

    def _act(self, outcome: Outcome, name: str) -> None:
        """The effect of one action on a configuration."""
        here = outcome.after
        if name == "spend_restart":
            outcome.after = replace(here, left=here.left - 1)
            if here.left == 0:
                outcome.broken_claim = "budget"
                outcome.what = "a restart is spent when none is left"
            return
        if name == "join_rendezvous":
            here = self._new_attempt(outcome)
        if name == _START:
            if here.workers.running:
                outcome.broken_claim = "groups"
                outcome.what = f"{outcome.move.dest} starts workers while others still run"
            elif here.workers is not Workers.NONE:
                outcome.broken_claim = "groups"
                again = "starts workers again, with no join_rendezvous before it"
                outcome.what = f"{outcome.move.dest} {again}"
            here = replace(here, workers=Workers.RUN)
        asks = bool(self._events_of(name))
        outcome.after = replace(here, asked=here.asked | {name}) if asks else here

    def _new_attempt(self, outcome: Outcome) -> Configuration:
        here = outcome.after
        if _STOP in here.asked:
            outcome.broken_claim = "stops"
            outcome.what = "a new attempt begins before the stop is answered: the answer is stale"
        workers = here.workers if here.workers.running else Workers.NONE
        return replace(here, asked=here.asked - _OF_THE_ATTEMPT, workers=workers)

    def timers(self, state: str) -> frozenset[str]:
        """Those that are armed on entry; a delay of None is never."""
        found = set()
        for name, delay in self.rules.timeouts.get(state, {}).items():
            try:
                armed = delay(Facts()) is not None
            except Exception:  # it needs facts that only a run has
                armed = True
            if armed:
                found.add(name)
        return frozenset(found)

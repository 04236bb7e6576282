"""Everything that can happen to a machine, looked through: a proof, or a way to break it.

Theory of operation. A *configuration* is the machine's state with what matters around it: what
has been asked and not been answered, which timers are armed, how much of the budget is left,
whether workers run. From the beginning, breadth first, every event that may come then is tried:

* asked for something, whoever was asked answers once, with one of the events that the action
  declares (``spare_assigned`` leaves the question open);
* an armed timer fires; workers that run may end, well or badly, one by one or the last of them;
* signals, membership changes and errors of the agent's own may come at any time;
* any action may fail, which skips the rest of the step's actions.

Conditions are free choices, the same within one step, but for those whose truth follows from the
configuration: ``restart_allowed``, ``all_succeeded``, ``worker_failed`` and ``signal_in``. A
budget of two is enough: a machine sees of it only whether something is left.

The exploration is breadth first, so the first way that is found to break a claim is a shortest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import CATALOGUE, Event
from elastic_fsm.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec, TransitionSpec, Use

__all__ = ["CLAIMS", "Exploration", "Finding", "Move", "Workers", "explore"]

CLAIMS: Mapping[str, str] = {
    "final": "a final state can be reached from everywhere",
    "budget": "the budget of restarts is never exceeded",
    "stops": "every stop is answered, and the answer is heard",
    "notices": "no notice falls through",
    "waiting": "no state waits for nothing",
    "groups": "no workers are started while others run",
}

BUDGET = 2
_MOST_CONFIGURATIONS = 100_000

_STOP = "stop_workers"
_START = "start_workers"
# Their answers carry the attempt, so that a new attempt makes them stale.
_OF_THE_ATTEMPT = {_STOP, _START, "join_rendezvous", "enter_exit_barrier"}
_STOP_ANSWERS = ("workers_stopped", "workers_stuck")
_LEAVES_OPEN = {"spare_assigned"}


class Workers(Enum):
    """What is known of the workers of the current attempt."""

    NONE = "none run"
    RUN = "all that ended, ended with 0"
    HURT = "some run; some failed or were stopped"
    DONE = "all ended with 0"

    @property
    def running(self) -> bool:
        """Whether some are alive."""
        return self in (Workers.RUN, Workers.HURT)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A state and what matters around it. ``broken``: an action failed, and that comes first."""

    state: str
    asked: frozenset[str]
    timers: frozenset[str]
    left: int
    workers: Workers = Workers.NONE
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """An event on the way, and what the machine made of it."""

    event: str
    data: Mapping[str, Any] = field(default_factory=dict)
    transition: str = ""
    dest: str = ""
    chosen: tuple[tuple[str, bool], ...] = ()
    failed: str = ""
    """The action that failed in this step, or the condition that raised."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that does not hold: the moves that lead there, and what is wrong then."""

    claim: str
    what: str
    budget: int
    moves: tuple[Move, ...]


@dataclass(slots=True)
class Exploration:
    """What was found: nothing means that all claims hold."""

    configurations: int = 0
    moves: int = 0
    complete: bool = True
    findings: dict[str, Finding] = field(default_factory=dict)


def explore(spec: MachineSpec, rules: Rules) -> Exploration:
    """Look through everything that can happen; the names of ``spec`` must be states that exist."""
    return _Explorer(spec, rules).run()


@dataclass(slots=True)
class _Outcome:
    """What one event leads to."""

    move: Move
    after: Configuration
    broken_claim: str = ""
    what: str = ""


class _Explorer:
    def __init__(self, spec: MachineSpec, rules: Rules) -> None:
        self.spec = spec
        self.rules = rules
        self.result = Exploration()
        self.notices = [kind.name for kind in CATALOGUE.values() if kind.notice]
        self.answers = {a.name: (*a.answers, *a.tells) for a in rules.actions.values()}
        self.signals = _kinds_of_signals(spec, rules)
        self.came: dict[Configuration, tuple[Configuration, Move] | None] = {}
        self.before: dict[Configuration, list[Configuration]] = {}
        self.todo: deque[Configuration] = deque()

    def run(self) -> Exploration:
        for left in range(BUDGET + 1):
            asked = frozenset({"run"})
            timers = self._timers(self.spec.initial)
            self._reach(Configuration(self.spec.initial, asked, timers, left), None)
        while self.todo and len(self.came) < _MOST_CONFIGURATIONS:
            self._look_at(self.todo.popleft())
        self.result.configurations = len(self.came)
        self.result.complete = not self.todo
        if self.result.complete:
            self._find_traps()
        return self.result

    def _reach(self, configuration: Configuration, way: tuple[Configuration, Move] | None) -> None:
        if configuration not in self.came:
            self.came[configuration] = way
            self.todo.append(configuration)
        if way is not None:
            self.before.setdefault(configuration, []).append(way[0])

    def _look_at(self, here: Configuration) -> None:
        if self.spec.states[here.state].final:
            return
        if not self._waits_for_something(here):
            self._report("waiting", here, None, f"{here.state} waits for nothing")
        for outcome in self._outcomes(here):
            self.result.moves += 1
            if outcome.broken_claim:
                self._report(outcome.broken_claim, here, outcome.move, outcome.what)
            if outcome.after.left >= 0:
                self._reach(outcome.after, (here, outcome.move))

    def _report(self, claim: str, here: Configuration, last: Move | None, what: str) -> None:
        if claim not in self.result.findings:
            root, moves = self._way_to(here)
            ending = (last,) if last else ()
            self.result.findings[claim] = Finding(claim, what, root.left, (*moves, *ending))

    def _way_to(self, here: Configuration) -> tuple[Configuration, list[Move]]:
        moves: list[Move] = []
        while (way := self.came[here]) is not None:
            here, move = way
            moves.insert(0, move)
        return here, moves

    def _find_traps(self) -> None:
        """Configurations from which no final state can be reached, the nearest first."""
        ending = [c for c in self.came if self.spec.states[c.state].final]
        seen = set(ending)
        while ending:
            new = {c for c in self.before.get(ending.pop(), ()) if c not in seen}
            seen |= new
            ending += new
        trap = next((c for c in self.came if c not in seen), None)
        if trap is not None:
            what = f"from {trap.state} no final state can be reached any more"
            self._report("final", trap, None, what)

    # -- what may come ---------------------------------------------------------------------------

    def _outcomes(self, here: Configuration) -> Iterator[_Outcome]:
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

    def _answers(self, here: Configuration, name: str) -> Iterator[_Outcome]:
        for event in self._events_of(name):
            if event == "worker_exited":
                continue  # of workers that run, below; of one that cannot be started, here
            asked = here.asked if event in _LEAVES_OPEN else here.asked - {name}
            after = replace(here, asked=asked)
            if event == "workers_stopped":
                gone = Workers.DONE if here.workers is Workers.DONE else Workers.NONE
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

    def _exits(self, here: Configuration) -> Iterator[_Outcome]:
        """A worker ends: well, badly or because it was stopped; others run, or it was the last."""
        kinds = [(0, False), (1, False)] + [(-15, True)] * (_STOP in here.asked)
        for last in (False, True):
            for code, stopped in kinds:
                good = code == 0 and here.workers is Workers.RUN
                running = Workers.RUN if good else Workers.HURT
                ended = Workers.DONE if good else Workers.NONE
                after = replace(here, workers=ended if last else running)
                data = {"exit_code": code, "stopped_by_agent": stopped, "last": last}
                yield from self._steps(after, "worker_exited", data)

    def _waits_for_something(self, here: Configuration) -> bool:
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
    ) -> Iterator[_Outcome]:
        candidates = self.spec.candidates(here.state, event)
        for transition, chosen in self._choices(candidates, here, event, data, {}):
            move = Move(event, data, chosen=tuple(chosen.items()), dest=here.state)
            if transition is None:
                yield self._not_taken(here, move, is_stop=is_stop)
            else:
                yield from self._taken(here, move, transition)
            if chosen:  # a condition may raise, too: the event is lost
                raising = replace(move, chosen=(), failed=next(reversed(chosen)))
                yield _Outcome(raising, replace(here, broken=True))

    def _not_taken(self, here: Configuration, move: Move, *, is_stop: bool) -> _Outcome:
        if move.event in self.spec.states[here.state].ignores:
            return _Outcome(move, here)
        if move.event in self.notices:
            what = f"{move.event} comes in {here.state}, where nothing is said about it"
            return _Outcome(move, here, "notices", what)
        if is_stop:
            what = f"{move.event}, the answer to a stop, comes in {here.state}: nobody hears it"
            return _Outcome(move, here, "stops", what)
        return _Outcome(move, here)

    def _taken(
        self, here: Configuration, move: Move, transition: TransitionSpec
    ) -> Iterator[_Outcome]:
        dest = transition.target(here.state)
        move = replace(move, transition=transition.name, dest=dest)
        inner: tuple[Use, ...] = ()
        after = replace(here, state=dest)
        if transition.dest is not None:
            inner = (*self.spec.states[here.state].on_exit, *self.spec.states[dest].on_enter)
            after = replace(after, timers=self._timers(dest))
        final = self.spec.states[dest].final
        outcome = _Outcome(move, after)
        for use in (*transition.before, *inner, *transition.after):
            action = self.rules.actions.get(use)
            if action is None or action.optional:
                continue
            if not final and not outcome.broken_claim:
                failing = replace(outcome.move, failed=action.name)
                yield _Outcome(failing, replace(outcome.after, broken=True))
            self._act(outcome, action.name)
        yield outcome

    def _act(self, outcome: _Outcome, name: str) -> None:
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
            here = replace(here, workers=Workers.RUN)
        asks = bool(self._events_of(name))
        outcome.after = replace(here, asked=here.asked | {name}) if asks else here

    def _new_attempt(self, outcome: _Outcome) -> Configuration:
        here = outcome.after
        if _STOP in here.asked:
            outcome.broken_claim = "stops"
            outcome.what = "a new attempt begins before the stop is answered: the answer is stale"
        workers = here.workers if here.workers.running else Workers.NONE
        return replace(here, asked=here.asked - _OF_THE_ATTEMPT, workers=workers)

    def _timers(self, state: str) -> frozenset[str]:
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

    # -- conditions ------------------------------------------------------------------------------

    def _choices(
        self,
        candidates: tuple[TransitionSpec, ...],
        here: Configuration,
        event: str,
        data: Mapping[str, Any],
        chosen: dict[str, bool],
    ) -> Iterator[tuple[TransitionSpec | None, dict[str, bool]]]:
        """Each transition that can be taken (None: none), with the free choices that lead to it."""
        if not candidates:
            yield None, chosen
            return
        first, *rest = candidates
        guards = [(use, True) for use in first.conditions] + [(u, False) for u in first.unless]
        for holds, made in self._hold(guards, here, event, data, chosen):
            if holds:
                yield first, made
            else:
                yield from self._choices(tuple(rest), here, event, data, made)

    def _hold(
        self,
        guards: list[tuple[Use, bool]],
        here: Configuration,
        event: str,
        data: Mapping[str, Any],
        chosen: dict[str, bool],
    ) -> Iterator[tuple[bool, dict[str, bool]]]:
        """Whether all guards of one transition hold, for each way to choose the free ones."""
        if not guards:
            yield True, chosen
            return
        (use, wanted), *rest = guards
        known = chosen.get(str(use))
        if known is None:
            known = self._known(use, here, event, data)
        for value in (True, False) if known is None else (known,):
            free = known is None
            made = chosen | {str(use): value} if free else chosen
            if value is wanted:
                yield from self._hold(rest, here, event, data, made)
            else:
                yield False, made

    def _known(
        self, use: Use, here: Configuration, event: str, data: Mapping[str, Any]
    ) -> bool | None:
        """The truth of a condition, where it follows from the configuration; else None."""
        if use.name == "restart_allowed":
            return here.left > 0
        if use.name == "all_succeeded":
            return here.workers is Workers.DONE
        if use.name == "worker_failed" and event == "worker_exited":
            return data["exit_code"] != 0 and not data.get("stopped_by_agent")
        if use.name == "signal_in" and "signal" in data and use in self.rules.conditions:
            return self.rules.conditions[use](Event(event, data), Facts())
        return None


_FAILED: Mapping[str, Any] = {"name": "an action", "error": "it raised"}


def _kinds_of_signals(spec: MachineSpec, rules: Rules) -> list[str]:
    """One signal for each way in which the declaration may look at it, and one that it ignores."""
    uses = [use for use in rules.conditions if use.name == "signal_in"]
    kinds: dict[tuple[bool, ...], str] = {}
    for name in ("SIGTERM", *sorted(rules.signals), "SIGUSR1", "SIGUSR2", "SIGCONT"):
        event = Event("signal_received", {"signal": name})
        kinds.setdefault(tuple(rules.conditions[use](event, Facts()) for use in uses), name)
    return list(kinds.values())

"""A way to break a machine, written down as a scenario file.

Each move is a line. What follows from other lines (an answer that comes at once, a timer) stands
there as a comment; what the world does is a line that can be played. Answers that do not come at
once make the rendezvous wait, or the start or the stop take longer. A line comes before the timers
that have not fired yet, and as late as an ``in_state_for`` asks for. Workers end so that conditions
on their ends come out right. What no scenario can say, such as an action that raises, is told in a
comment only; a way that would not be played as it is told is comments only, with the reason.
"""

from __future__ import annotations

import functools
import math
import signal
from typing import TYPE_CHECKING

from elastic_fsm.durations import parse_duration
from elastic_fsm.facts import Facts
from elastic_fsm.scenario.exit_codes import UNSTARTED, exit_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.binding import Delay, Rules
    from elastic_fsm.declaration import MachineSpec
    from elastic_fsm.exploration import Finding, Move

__all__ = ["as_scenario"]

_RENDEZVOUS = (
    "rendezvous_completed",
    "rendezvous_failed",
    "spare_assigned",
    "run_finished",
    "barrier_passed",
)
_START, _STOP, _JOIN = "start_workers", "stop_workers", "join_rendezvous"
_BY_THEMSELVES = ("run_requested", "workers_started", "workers_stopped", "workers_stuck")


def as_scenario(
    finding: Finding, spec: MachineSpec, rules: Rules, *, grace: float | None = None
) -> str:
    """The text of a scenario file that shows what is wrong; comments alone where it cannot.

    ``grace`` are the seconds after which a worker that is being stopped is killed; None: never.
    """
    return _Writer(finding, spec, rules, math.inf if grace is None else grace).text()


class _Writer:
    """``now`` is the time of the last line, ``entered`` when the machine came to its state, and
    ``fires`` when each of the state's timers will; what was asked at which time and is not answered
    yet stands in ``asked``, how long an answer must take in ``takes``; ``unlike`` is why playing
    would take another way."""

    def __init__(
        self, finding: Finding, spec: MachineSpec, rules: Rules, grace: float = math.inf
    ) -> None:
        self.finding = finding
        self.spec = spec
        self.rules = rules
        self.grace = grace
        self.waiting = _waiting(rules)
        self.takes: dict[str, float] = {}
        self.waits = self._rendezvous_waits()
        joins = {n for n, move in enumerate(finding.moves) if _JOIN in self._actions(move)}
        self.codes = exit_codes(finding.moves, rules, joins)
        # The workers of an attempt end one after the other, the highest rank first.
        self.workers = max(2, *self._exits_by_attempt())
        if any(move.event == "worker_exited" and move.data["last"] for move in finding.moves):
            self.workers = max(1, *self._exits_by_attempt())

    def text(self) -> str:
        self._write()
        self._write()  # now all is known that takes its time, also where it need not
        if self._outlives_grace() and self._waits_for_grace():
            self._cannot("with a longer stop.grace a timer would come later")
        if self.unlike:
            told = [self.finding.what, f"this way cannot be played: {self.unlike}"]
            return "".join(f"# {line}\n" for line in [*told, *map(_comment, self.finding.moves)])
        head = [f"# {self.finding.what}", f"workers {self.workers}"]
        if self.finding.budget:
            head.append(f"max_restarts {self.finding.budget}")
        if self.waits:
            head.append("rendezvous waits")
        width = max((len(line) for line, _ in self.lines), default=0)
        body = [f"{line:<{width}}  # {comment}" for line, comment in self.lines]
        return "\n".join([*head, *self._conduct(), *body]) + "\n"

    def _write(self) -> None:
        self.now = 0.0
        self.begun = self.stuck = self.unstarted = self.refuses = False
        self.unlike = ""
        if any(action.blocking for action in self.rules.actions.values()):
            self._cannot("its actions call methods of a SimpleElasticAgent")
        if self.codes is None:
            self._cannot("no ends of workers fit these conditions")
        self.spent, self.attempt, self.started = 0, -1, -2
        self.asked: dict[str, float] = {}
        self.alive = self.workers
        self.lines: list[tuple[str, str]] = []
        self._enter(self.spec.initial)
        for number, move in enumerate(self.finding.moves):
            if self.refuses:  # so that the next event is another one
                self._cannot("the agent starts no workers twice in one attempt")
            self.lines.append((self._line(move, (self.codes or {}).get(number, 0)), _comment(move)))
            self._look_at_timers(move)
            if _enters(move, self.spec):
                self._enter(move.dest)
            self._ask(move)

    def _enter(self, state: str) -> None:
        """Timers are armed with what is known before the step's actions are run."""
        self.state, self.entered = state, self.now
        budget = self.finding.budget
        facts = Facts(
            attempt=self.attempt,
            local_world_size=self.workers,
            max_restarts=budget,
            restarts_left=budget - self.spent,
        )
        delays = self.rules.timeouts.get(state, {})
        known = {event: _seconds(delay, facts) for event, delay in delays.items()}
        self.fires = {event: self.now + s for event, s in known.items() if s is not None}

    def _conduct(self) -> Iterator[str]:
        if self.unstarted:
            yield f"worker {self.workers - 1} cannot start"
        if _START in self.takes:
            takes = self.takes[_START]
            yield f"start takes {_say(takes)}" if takes < math.inf else "start never ends"
        if self.stuck:
            yield from ("set stop.grace=1s", "set stop.kill_timeout=1s")
            yield "worker 0 survives everything"
        elif _STOP in self.takes:
            takes = self.takes[_STOP]
            if self._outlives_grace():
                yield f"set stop.grace={_say(takes + 1.0)}"
            yield f"worker 0 takes {_say(takes)} to stop"

    def _outlives_grace(self) -> bool:
        """Whether a worker would be killed before its stop has taken as long as it must."""
        return not self.stuck and self.takes.get(_STOP, 0.0) >= self.grace

    def _waits_for_grace(self) -> bool:
        return any("stop.grace" in state.timeouts.values() for state in self.spec.states.values())

    def _exits_by_attempt(self) -> list[int]:
        counts = [0]
        for move in self.finding.moves:
            if move.event == "workers_started":
                counts.append(0)
            counts[-1] += move.event == "worker_exited" and not move.data.get("stopped_by_agent")
        return [0, *counts]

    def _rendezvous_waits(self) -> bool:
        """Whether some question to the rendezvous is not answered at once, and well."""
        asked = False
        for move in self.finding.moves:
            if asked and move.event not in ("rendezvous_completed", "barrier_passed"):
                return True
            if asked and self._at_least(move):
                return True
            asked = not self._actions(move).isdisjoint([_JOIN, "enter_exit_barrier"])
        return False

    def _actions(self, move: Move) -> set[str]:
        transition = self.spec.transitions.get(move.transition)
        if transition is None:
            return set()
        uses = (*transition.before, *transition.after)
        if transition.dest is not None:
            uses += self.spec.states[move.dest].on_enter
        return {use.name for use in uses}

    def _ask(self, move: Move) -> None:
        actions = self._actions(move)
        self.spent += "spend_restart" in actions
        if _JOIN in actions:  # the answers of the attempt before are stale
            self.attempt += 1
            self.asked.clear()
        for name in actions & {_START, _STOP}:
            self.asked.setdefault(name, self.now)
        if _START in actions:
            self.alive = self.workers
            self.refuses = self.started == self.attempt and not move.failed
            self.started = self.attempt

    def _look_at_timers(self, move: Move) -> None:
        for event, end in self.fires.items():
            if end < self.now:
                self._cannot(f"in {self.state} {event} comes before {move.event}")

    def _cannot(self, why: str) -> None:
        """The first reason is told."""
        self.unlike = self.unlike or why

    def _line(self, move: Move, code: int) -> str:
        event = move.event
        if event in self.rules.timeouts.get(self.state, {}):
            self._wait_for_timer(event)
            return ""
        if event in _BY_THEMSELVES:
            self._by_itself(move)
            return ""
        if event in _RENDEZVOUS and not self.waits:
            return ""
        if event == "worker_exited":
            return self._exit(move, code)
        if event == "signal_received" and move.data["signal"] not in self.finding.heard:
            self._cannot(f"the run does not listen to {move.data['signal']}")
        return self._at(move, _THINGS.get(event, f"event {event}").format(**move.data))

    def _by_itself(self, move: Move) -> None:
        event, soonest = move.event, self.entered + self._at_least(move)
        if event == "run_requested":
            self.begun = True
        elif event == "workers_started":
            self._answered(_START, soonest)
        else:
            self.stuck |= event == "workers_stuck"
            self._answered(_STOP, soonest)
            self.asked.pop(_START, None)

    def _answered(self, name: str, soonest: float) -> None:
        began = self.asked.pop(name, self.now)
        if soonest > began + self.takes.get(name, 0.0):
            self.takes[name] = soonest - began
        takes = 3.0 if self.stuck and name == _STOP else self.takes.get(name, 0.0)
        if takes < math.inf:
            self.now = max(self.now, began + takes)

    def _exit(self, move: Move, code: int) -> str:
        if move.data.get("stopped_by_agent"):
            return ""
        self.alive -= 1
        if "reason" in move.data and code == UNSTARTED:
            self.unstarted = True
            self.asked.pop(_START, None)
            return ""
        how = f"dies of {signal.Signals(-code).name}" if code < 0 else f"exits {code}"
        at_once = _STOP in self.asked and bool(self.lines[-1][0])  # before the stop reaches it
        if _STOP in self.asked and not at_once and self._asks(move, "worker_failed"):
            self._cannot("a worker that is being stopped does not fail by itself")
        return self._at(move, f"worker {self.alive} {how}", at_once=at_once)

    def _asks(self, move: Move, condition: str) -> bool:
        candidates = self.spec.candidates(self.state, move.event)
        return any(use.name == condition for t in candidates for use in (*t.conditions, *t.unless))

    def _at(self, move: Move, what: str, *, at_once: bool = False) -> str:
        """The next moment that fits; whoever has not answered yet takes longer than that."""
        if self.begun and not at_once:
            step = min([1.0, *((end - self.now) / 2 for end in self._ends(move))])
            self.now = max(self.now + step, self.entered + self._at_least(move))
        self._outlast(1.0)
        return f"at {_say(self.now)} {what}"

    def _outlast(self, more: float) -> None:
        for name, began in self.asked.items():
            self.takes[name] = max(self.takes.get(name, 0.0), self.now + more - began)

    def _ends(self, move: Move) -> list[float]:
        """What must not have come before a line: timers, and the time of an ``in_state_for`` that
        does not hold."""
        over = [self.entered + seconds for seconds in self._waited(move, held=False)]
        return [end for end in (*self.fires.values(), *over) if end > self.now]

    def _at_least(self, move: Move) -> float:
        """For how long the state must have lasted."""
        return max(self._waited(move, held=True), default=0.0)

    def _waited(self, move: Move, *, held: bool) -> list[float]:
        """The seconds of those conditions on the time in the state that are, or are not, true."""
        return [self.waiting[c] for c, value in move.chosen if value is held and c in self.waiting]

    def _wait_for_timer(self, event: str) -> None:
        first = min(self.fires, key=lambda name: self.fires[name], default=event)
        if event in self.fires and first != event:
            self._cannot(f"in {self.state} {first} comes before {event}")
        self.now = max(self.now, self.fires.pop(event, self.now))
        self._outlast(1.0)
        if _START in self.asked:
            self.takes[_START] = math.inf


def _enters(move: Move, spec: MachineSpec) -> bool:
    """Whether the machine comes to a state, be it the one where it was."""
    return bool(move.transition) and spec.transitions[move.transition].dest is not None


def _seconds(delay: Delay, facts: Facts) -> float | None:
    """None for a timer that is never armed, or of which nobody knows."""
    try:
        return delay(facts)
    except Exception:  # it needs facts that only a run has
        return None


def _waiting(rules: Rules) -> dict[str, float]:
    """How long a state must have lasted, by condition as the declaration writes it."""
    return {
        str(use): parse_duration(bound.keywords["seconds"]) or 0.0
        for use, bound in rules.conditions.items()
        if use.name == "in_state_for" and isinstance(bound, functools.partial)
    }


def _say(seconds: float) -> str:
    """As a scenario reads it: one number, one unit."""
    return f"{round(seconds, 3):.12g}s"


_THINGS = {
    "signal_received": "signal {signal}",
    "membership_changed": "membership changes",
    "timer_expired": "event timer_expired local_rank=0 signal=",
    "rendezvous_completed": "rendezvous completes",
    "action_failed": "event action_failed name=somebody error=injected",
    **{name: f"rendezvous says {name}" for name in _RENDEZVOUS[1:]},
}


def _comment(move: Move) -> str:
    """What the machine makes of it, and what must be true for that."""
    way = f"{move.transition} -> {move.dest}" if move.transition else "nothing happens"
    if move.failed:
        way = f"{way}, where {move.failed} fails" if move.transition else f"{move.failed} raises"
    chosen = [name if held else f"not {name}" for name, held in move.chosen]
    given = f" ({' and '.join(chosen)})" if chosen else ""
    return f"{move.event}: {way}{given}"

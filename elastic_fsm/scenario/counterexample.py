"""A way to break a machine, written down as a scenario file.

Each move is a line. What follows from other lines (an answer that comes at once, a timer) stands
there as a comment; what the world does is a line that can be played. Answers that do not come at
once make the rendezvous wait or the start take longer. What no scenario can say, such as an
action that raises, is told in a comment only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.durations import say_duration
from elastic_fsm.facts import Facts

if TYPE_CHECKING:
    from elastic_fsm.binding import Rules
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
_BY_THEMSELVES = ("run_requested", "workers_started", "workers_stopped", "workers_stuck")


def as_scenario(finding: Finding, spec: MachineSpec, rules: Rules) -> str:
    """The text of a scenario file that shows what is wrong."""
    return _Writer(finding, spec, rules).text()


class _Writer:
    def __init__(self, finding: Finding, spec: MachineSpec, rules: Rules) -> None:
        self.finding = finding
        self.spec = spec
        self.rules = rules
        self.now = 0.0
        self.state = spec.initial
        self.start_began: float | None = None
        self.settings: dict[str, str] = {}
        self.lines: list[tuple[str, str]] = []
        self.waits = self._rendezvous_waits()
        # The workers of an attempt end one after the other, the highest rank first.
        self.workers = max(2, *self._exits_by_attempt())
        if any(move.event == "worker_exited" and move.data["last"] for move in finding.moves):
            self.workers = max(1, *self._exits_by_attempt())
        self.alive = self.workers

    def text(self) -> str:
        for move in self.finding.moves:
            self._add(move)
        head = [f"# {self.finding.what}", f"workers {self.workers}"]
        if self.finding.budget:
            head.append(f"max_restarts {self.finding.budget}")
        if self.waits:
            head.append("rendezvous waits")
        width = max((len(line) for line, _ in self.lines), default=0)
        body = [f"{line:<{width}}  # {comment}" for line, comment in self.lines]
        return "\n".join([*head, *self.settings.values(), *body]) + "\n"

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
            asked = self._asks(move, "join_rendezvous") or self._asks(move, "enter_exit_barrier")
        return False

    def _asks(self, move: Move, action: str) -> bool:
        entered = move.transition and self.spec.transitions[move.transition].dest is not None
        uses = self.spec.states[move.dest].on_enter if entered else ()
        return any(use.name == action for use in uses)

    def _add(self, move: Move) -> None:
        self.lines.append((self._line(move), _comment(move)))
        if self._asks(move, "start_workers"):
            self.start_began, self.alive = self.now, self.workers
        self.state = move.dest

    def _line(self, move: Move) -> str:
        event = move.event
        if event in self.rules.timeouts.get(self.state, {}):
            self._wait_for_timer(event)
            return ""
        if event in _BY_THEMSELVES:
            self._by_itself(event)
            return ""
        if event in _RENDEZVOUS and not self.waits:
            return ""
        if event == "worker_exited":
            return self._exit(move)
        return self._at(_THINGS.get(event, f"event {event}").format(**move.data))

    def _by_itself(self, event: str) -> None:
        if event in ("workers_started", "workers_stopped"):
            self.start_began = None
        if event == "workers_stuck":
            self.settings["stuck"] = "worker 0 survives everything"

    def _exit(self, move: Move) -> str:
        if move.data.get("stopped_by_agent"):
            return ""
        if "reason" in move.data:
            self.settings["cannot_start"] = "worker 0 cannot start"
            self.start_began = None
            return ""
        self.alive -= 1
        return self._at(f"worker {self.alive} exits {move.data['exit_code']}")

    def _at(self, what: str) -> str:
        """The next moment; whoever has not answered yet takes longer than that."""
        self.now += self._step()
        if self.start_began is not None:
            takes = self.now + 1 - self.start_began
            self.settings["start"] = f"start takes {say_duration(takes)}"
        return f"at {say_duration(self.now)} {what}"

    def _step(self) -> float:
        """A second, or less where a timer would fire before."""
        delays = [self._delay(event) for event in self.rules.timeouts.get(self.state, {})]
        return min([1.0, *(delay / 2 for delay in delays if delay)])

    def _wait_for_timer(self, event: str) -> None:
        self.now += self._delay(event)
        if self.start_began is not None:
            self.settings["start"] = "start never ends"

    def _delay(self, event: str) -> float:
        try:
            return self.rules.timeouts[self.state][event](Facts()) or 0.0
        except Exception:  # it needs facts that only a run has
            return 0.0


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

"""Breadth first through all configurations; see the package for what that means."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from elastic_fsm.exploration.endings import Endings
from elastic_fsm.exploration.happenings import Happenings
from elastic_fsm.exploration.model import Exploration, Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec
    from elastic_fsm.exploration.model import Configuration, Move, Outcome

__all__ = ["BUDGET", "explore"]

BUDGET = 2
_MOST_CONFIGURATIONS = 50_000


def explore(spec: MachineSpec, rules: Rules, stop_signals: Sequence[str]) -> Exploration:
    """Look through everything that can happen; the names of ``spec`` must be states that exist.

    ``stop_signals`` are those that are to end a run (``stop.signals``).
    """
    return _Explorer(spec, rules, stop_signals).run()


class _Explorer:
    def __init__(self, spec: MachineSpec, rules: Rules, stop_signals: Sequence[str]) -> None:
        self.spec = spec
        self.happenings = Happenings(spec, rules, stop_signals)
        self.result = Exploration()
        self.came: dict[Configuration, tuple[Configuration, Move] | None] = {}
        self.outcomes: dict[Configuration, list[Outcome]] = {}
        self.todo: deque[Configuration] = deque()

    def run(self) -> Exploration:
        for left in range(BUDGET + 1):
            for beginning in self.happenings.beginnings(left):
                self._reach(beginning, None)
        while self.todo and len(self.came) < _MOST_CONFIGURATIONS:
            self._look_at(self.todo.popleft())
        self.result.configurations = len(self.came)
        self.result.complete = not self.todo
        if self.result.complete:
            self._look_at_endings()
        return self.result

    def _reach(self, configuration: Configuration, way: tuple[Configuration, Move] | None) -> None:
        if configuration.left < 0:
            self.outcomes[configuration] = []  # spent what is not there: nothing is said of it
        elif configuration not in self.came:
            self.came[configuration] = way
            self.todo.append(configuration)

    def _look_at(self, here: Configuration) -> None:
        self.outcomes[here] = []
        if self.spec.states[here.state].final:
            return
        if not self.happenings.waits_for_something(here):
            self._report("waiting", here, (), f"{here.state} waits for nothing")
        for outcome in self.happenings.outcomes(here):
            self.outcomes[here].append(outcome)
            self.result.moves += 1
            self._note(outcome)
            if outcome.broken_claim:
                self._report(outcome.broken_claim, here, (outcome.move,), outcome.what)
            self._reach(outcome.after, (here, outcome.move))

    def _note(self, outcome: Outcome) -> None:
        move, workers = outcome.move, outcome.after.workers
        if move.transition:
            self.result.taken.add(move.transition)
        expected = move.event not in ("action_failed", "workers_stuck")
        if self.spec.states[move.dest].final and workers.running and expected:
            self.result.cut_off.setdefault(move.dest, set()).add(move.transition)

    def _look_at_endings(self) -> None:
        endings = Endings(self.spec, self.happenings, self.outcomes)
        for claim, look in {"final": endings.trap, "signals": endings.deaf_to_a_stop}.items():
            if endless := look(endings.stuck):
                self._report(claim, endless.at, endless.moves, endless.what)
            elif endings.stuck and look(set()):
                self.result.follows.add(claim)

    def _report(self, claim: str, here: Configuration, last: Sequence[Move], what: str) -> None:
        if claim not in self.result.findings:
            root, moves = self._way_to(here)
            way, heard = (*moves, *last), self.happenings.heard
            self.result.findings[claim] = Finding(claim, what, root.left, way, heard)

    def _way_to(self, here: Configuration) -> tuple[Configuration, list[Move]]:
        moves: list[Move] = []
        while (way := self.came[here]) is not None:
            here, move = way
            moves.insert(0, move)
        return here, moves

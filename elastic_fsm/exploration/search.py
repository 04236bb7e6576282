"""Breadth first through all configurations; see the package for what that means."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from elastic_fsm.exploration.happenings import Happenings
from elastic_fsm.exploration.model import Exploration, Finding

if TYPE_CHECKING:
    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec
    from elastic_fsm.exploration.model import Configuration, Move

__all__ = ["explore"]

BUDGET = 2
_MOST_CONFIGURATIONS = 50_000


def explore(spec: MachineSpec, rules: Rules) -> Exploration:
    """Look through everything that can happen; the names of ``spec`` must be states that exist."""
    return _Explorer(spec, rules).run()


class _Explorer:
    def __init__(self, spec: MachineSpec, rules: Rules) -> None:
        self.spec = spec
        self.happenings = Happenings(spec, rules)
        self.result = Exploration()
        self.came: dict[Configuration, tuple[Configuration, Move] | None] = {}
        self.before: dict[Configuration, list[Configuration]] = {}
        self.todo: deque[Configuration] = deque()

    def run(self) -> Exploration:
        for left in range(BUDGET + 1):
            self._reach(self.happenings.beginning(left), None)
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
        if not self.happenings.waits_for_something(here):
            self._report("waiting", here, None, f"{here.state} waits for nothing")
        for outcome in self.happenings.outcomes(here):
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

"""How workers must end so that the conditions on their ends come out as a way needs it.

An exploration chooses freely what ``exit_code_in`` and ``ended_by`` say. Here each failure on the
way is given an end with which they say just that, by asking them.
"""

from __future__ import annotations

import functools
import signal
from typing import TYPE_CHECKING

from elastic_fsm.events import Event
from elastic_fsm.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from elastic_fsm.binding import Condition, Rules
    from elastic_fsm.exploration import Move

__all__ = ["UNSTARTED", "exit_codes"]

UNSTARTED = 127
"""The code of a worker that cannot be started."""

_SAID = {"exit_code_in": "codes", "ended_by": "signals"}
"""The conditions on how workers ended, and the parameter that says how."""


def exit_codes(
    moves: Sequence[Move], rules: Rules, joins: Collection[int]
) -> Mapping[int, int] | None:
    """For the number of each move in which a worker fails its exit code, -n for signal n; None
    when there are none with which the conditions come out so.

    ``joins`` are the numbers of the moves after which a new attempt begins.
    """
    return _Search(moves, rules, joins).onwards(0, {})


class _Search:
    def __init__(self, moves: Sequence[Move], rules: Rules, joins: Collection[int]) -> None:
        self.moves = moves
        self.joins = joins
        uses = {use: rule for use, rule in rules.conditions.items() if use.name in _SAID}
        self.rules = {str(use): rule for use, rule in uses.items()}
        named = [code for use, rule in uses.items() for code in _named(rule, _SAID[use.name])]
        self.kinds = list(self._kinds([1, 2, *named, *range(3, 256)]))

    def _kinds(self, codes: Sequence[int]) -> Iterator[int]:
        """One code for each way in which the conditions may look at them."""
        seen = set()
        for code in codes:
            said = tuple(_holds(rule, "", {0: code}) for rule in self.rules.values())
            if said not in seen:
                seen.add(said)
                yield code

    def onwards(self, number: int, ended: Mapping[int, int]) -> Mapping[int, int] | None:
        """The codes from one move on; ``ended`` are those of the attempt until then."""
        if number == len(self.moves):
            return {}
        move = self.moves[number]
        for code in self._tried(move):
            now = ended if code is None else {**ended, len(ended): code}
            if self._fits(move, now):
                rest = self.onwards(number + 1, {} if number in self.joins else now)
                if rest is not None:
                    return rest if code is None else {number: code, **rest}
        return None

    def _tried(self, move: Move) -> list[int] | list[None]:
        if move.event != "worker_exited" or move.data["exit_code"] == 0:
            return [None]
        if move.data.get("stopped_by_agent"):
            return [None]
        return [UNSTARTED, *self.kinds] if "reason" in move.data else self.kinds

    def _fits(self, move: Move, ended: Mapping[int, int]) -> bool:
        chosen = [(self.rules[text], held) for text, held in move.chosen if text in self.rules]
        return all(_holds(rule, move.event, ended) is held for rule, held in chosen)


def _holds(rule: Condition, event: str, ended: Mapping[int, int]) -> bool:
    return rule(Event(event), Facts(exit_codes=ended))


def _named(rule: Condition, parameter: str) -> Iterator[int]:
    """The ends that a condition names, and that a worker can have."""
    assert isinstance(rule, functools.partial)
    for said in rule.keywords[parameter]:
        code = -signal.Signals[said] if isinstance(said, str) else said
        if 0 < code < 256 or -code in set(signal.Signals):
            yield code

"""Feeds the events of a journal to a machine again, and compares what it does.

A machine is a pure function of its state, an event and the facts, and the journal has all three.
So a fresh machine, made from the journal's own header, must take every step again; where it does
not, the journal or the machine is not what it was. Nothing is started and no action is run: a
step's actions are compared, as text.

Another machine may be given the same events. Where it takes another way, the rest is a thought
experiment: the events and facts are those of the real run, whose workers the other machine would
perhaps have stopped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.facts import Facts
from elastic_fsm.journal import describe_step
from elastic_fsm.machine import ConditionFailed, Machine, load_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elastic_fsm.journal_reader import JournalFile
    from elastic_fsm.machine import Ignored, Step
    from elastic_fsm.registry import Registry
    from elastic_fsm.tally import Tally

__all__ = ["MOST_KEPT", "Difference", "Replayed", "recorded_machine", "replay"]

# What a line says about the machine; the rest of it was given to the machine.
_SAME_MACHINE = (
    "outcome", "transition", "source", "dest", "entered", "actions", "verdicts", "state",
    "error", "worker_state",
)  # fmt: skip
# Another machine is free to ask other conditions on the same way.
_SAME_WAY = ("outcome", "transition", "source", "dest", "entered", "actions", "state")
_MASK = "***"
MOST_KEPT = 20
"""So many differences are kept, since each holds what the machine did: a journal is long."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A line at which the machine does something else than is written there."""

    index: int
    where: str
    recorded: Mapping[str, Any]
    computed: Mapping[str, Any]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome: the first differences, how many there are, how many lines were compared, and
    an end before the end."""

    differences: tuple[Difference, ...]
    differing: int
    compared: int
    ended_at: int | None = None
    """Index of the record with which the machine came to a final state before the run did."""
    final_state: str = ""


def recorded_machine(header: Mapping[str, Any], registry: Registry) -> Machine:
    """The machine of a journal, from its header alone; raises :class:`BadInput`."""
    return load_machine(header["machine"], registry, header.get("settings", {}))


def replay(journal: JournalFile, machine: Machine, *, other: bool = False) -> Replayed:
    """Step ``machine`` through a journal; ``other`` when it is not the journal's own.

    The steps of the journal's own machine must be the same in every respect; of another one only
    the way is compared. It ends where the machine has come to a final state.
    """
    run = _Replay(machine, other=other)
    skips = {gap.index: gap.before for gap in journal.gaps}
    differences: list[Difference] = []
    differing, ended_at = 0, None
    for index, record in enumerate(journal.records):
        if index in skips:
            run.skip_to(skips[index])
        fields, computed = run.compare(record)
        differing += bool(fields)
        if fields and len(differences) < MOST_KEPT:
            where = journal.where(index)
            differences.append(Difference(index, where, record, computed, fields))
        if run.machine.state.final and index + 1 < len(journal.records):
            if other:
                ended_at = index
                break
            run.follow(record)
    compared = len(journal.records) if ended_at is None else ended_at + 1
    end = run.machine.state.name
    return Replayed(tuple(differences), differing, compared, ended_at, end)


class _Replay:
    """A machine, and what the agent knows beside it: the number of states entered."""

    def __init__(self, machine: Machine, *, other: bool) -> None:
        self.other = other
        self.machine = machine
        self.visits = 0
        shown = machine.state.worker_state
        self.worker_state: str = shown.value if shown else "INIT"

    def skip_to(self, before: Tally) -> None:
        """Lines are missing: go on where the sums say that the machine was."""
        self.visits, self.worker_state = before.visits, before.worker_state
        self._put(before.state)

    def follow(self, record: Mapping[str, Any]) -> None:
        """Wrongly at its end, so that nothing more would come: go on as the journal says."""
        self._put(record.get("dest") or record.get("state", ""))

    def _put(self, state: str) -> None:
        if state in self.machine.spec.states:
            spec = replace(self.machine.spec, initial=state)
            self.machine = Machine(spec, self.machine.rules)

    def compare(self, record: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Take one line; returns the fields that differ, and what they should be.

        A line that was changed keeps its ``check``, of which no machine knows what it should be.
        """
        differing, computed = self._compare(record)
        changed = ("check",) if "check" in record and not self.other else ()
        return differing + changed, computed

    def _compare(self, record: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        if "event" not in record:
            return (), {}
        try:
            computed = self._computed(record)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return ("form",), {"form": f"not a line of ours: {type(error).__name__}: {error}"}
        names = _SAME_WAY if self.other else _SAME_MACHINE
        differing = tuple(n for n in names if not _same(record.get(n), computed.get(n)))
        return differing, computed

    def _computed(self, record: Mapping[str, Any]) -> dict[str, Any]:
        event, facts = _event_of(record["event"]), _facts_of(record["facts"])
        computed = describe_step(event, facts, self._outcome(record, event, facts))
        if computed.get("entered"):
            self.visits += 1
            shown = self.machine.state.worker_state
            self.worker_state = shown.value if shown else self.worker_state
        return computed | {"worker_state": self.worker_state}

    def _outcome(
        self, record: Mapping[str, Any], event: Event, facts: Facts
    ) -> Step | Ignored | ConditionFailed | str:
        """What the agent would make of the event."""
        if self._is_stale(record, event, facts):
            return "stale"
        try:
            return self.machine.step(event, facts)
        except ConditionFailed as error:
            return error

    def _is_stale(self, record: Mapping[str, Any], event: Event, facts: Facts) -> bool:
        """Another machine has made other visits, so there the journal's word is taken."""
        if self.other:
            return bool(record["outcome"] == "stale")
        old_attempt = event.attempt is not None and event.attempt != facts.attempt
        return old_attempt or (event.visit is not None and event.visit != self.visits)


def _event_of(values: Mapping[str, Any]) -> Event:
    return Event(values["name"], values["data"], values.get("attempt"), values.get("visit"))


def _facts_of(values: Mapping[str, Any]) -> Facts:
    """Facts out of JSON, which knows neither tuples nor numbers as keys."""
    return Facts(**dict(_fact(name, value) for name, value in values.items()))


def _fact(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, dict):
        return name, MappingProxyType({int(rank): code for rank, code in value.items()})
    return name, tuple(value) if isinstance(value, list) else value


def _same(recorded: Any, computed: Any) -> bool:
    """Secrets are hidden in a journal, so that a mask stands for whatever it was: in the lines, in
    a text made from the header, or in both."""
    if isinstance(computed, list) and isinstance(recorded, list):
        pairs: Iterator[tuple[Any, Any]] = zip(recorded, computed, strict=False)
        return len(recorded) == len(computed) and all(_same(r, c) for r, c in pairs)
    if isinstance(computed, str) and isinstance(recorded, str):
        return _fits(recorded, computed) or _fits(computed, recorded)
    return bool(recorded == computed)


def _fits(text: str, masked: str) -> bool:
    if _MASK not in masked:
        return text == masked
    pattern = ".*".join(map(re.escape, masked.split(_MASK)))
    return re.fullmatch(pattern, text, re.DOTALL) is not None

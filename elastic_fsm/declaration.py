"""The declaration of a machine as data.

The words are those of the ``transitions`` library; states and transitions are mappings by name,
because Hydra merges mappings and replaces lists. Their order is the order of priority.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from elastic_fsm.group import WorkerState

__all__ = ["ANY", "SAME", "MachineSpec", "StateSpec", "TransitionSpec", "Use"]

ANY = "any"
"""As a source: every non-final state."""
SAME = "same"
"""As a destination: leave the state and enter it again."""


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """A registered name as the declaration uses it, with its parameters.

    ``arguments`` is None, a mapping of parameters, or the value of the only parameter. Two uses
    are never equal: each is bound by itself. ``path`` is where it stands.
    """

    name: str
    arguments: Any = None
    path: str = ""

    def __str__(self) -> str:
        if self.arguments is None:
            return self.name
        if isinstance(self.arguments, Mapping):
            return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.arguments.items())})"
        if isinstance(self.arguments, list | tuple):
            return f"{self.name}({', '.join(map(str, self.arguments))})"
        return f"{self.name}({self.arguments})"


class StateSpec(NamedTuple):
    """A state. ``worker_state`` is what it shows to the outside, None: what was shown before."""

    name: str
    doc: str = ""
    worker_state: WorkerState | None = None
    on_enter: tuple[Use, ...] = ()
    on_exit: tuple[Use, ...] = ()
    timeouts: Mapping[str, Any] = MappingProxyType({})
    ignores: tuple[str, ...] = ()
    final: bool = False
    exit_code: int | str | None = None

    @property
    def path(self) -> str:
        """Where it stands in the configuration."""
        return f"machine.states.{self.name}"


class TransitionSpec(NamedTuple):
    """An arrow; without ``dest`` it is internal: only ``before`` and ``after`` are run."""

    name: str
    trigger: str
    source: tuple[str, ...]
    doc: str = ""
    dest: str | None = None
    conditions: tuple[Use, ...] = ()
    unless: tuple[Use, ...] = ()
    before: tuple[Use, ...] = ()
    after: tuple[Use, ...] = ()
    priority: int = 0

    @property
    def path(self) -> str:
        """Where it stands in the configuration."""
        return f"machine.transitions.{self.name}"

    @property
    def from_any(self) -> bool:
        """Whether it starts from every non-final state."""
        return ANY in self.source

    @property
    def guarded(self) -> bool:
        """Whether it may be refused."""
        return bool(self.conditions or self.unless)

    def target(self, source: str) -> str:
        """The state after taking it from ``source``."""
        return source if self.dest in (None, SAME) else str(self.dest)


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A whole declaration; the order of its mappings is that of the file."""

    initial: str
    states: Mapping[str, StateSpec]
    transitions: Mapping[str, TransitionSpec]
    doc: str = ""

    _candidates: Mapping[tuple[str, str], tuple[TransitionSpec, ...]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        table = {
            (state.name, trigger): _in_order(state, [t for t in fitting if not state.final])
            for trigger, fitting in self._by_trigger().items()
            for state in self.states.values()
        }
        object.__setattr__(self, "_candidates", table)

    def _by_trigger(self) -> dict[str, list[TransitionSpec]]:
        fitting: dict[str, list[TransitionSpec]] = {}
        for transition in self.transitions.values():
            fitting.setdefault(transition.trigger, []).append(transition)
        return fitting

    def candidates(self, state: str, trigger: str) -> tuple[TransitionSpec, ...]:
        """The transitions to try for an event in a state, in order.

        Those that name the state come first, then, unless the state ignores the event, those
        from ``any``; within each the higher priority, then the order of the declaration.
        """
        return self._candidates.get((state, trigger), ())

    def triggers(self) -> tuple[str, ...]:
        """Every event that some transition reacts to."""
        return tuple(dict.fromkeys(t.trigger for t in self.transitions.values()))

    def sources(self, transition: TransitionSpec) -> tuple[str, ...]:
        """The states from which it may be taken, ``any`` spelt out."""
        return tuple(
            state
            for state in self.states
            if transition in self.candidates(state, transition.trigger)
        )


def _in_order(state: StateSpec, fitting: list[TransitionSpec]) -> tuple[TransitionSpec, ...]:
    """Those that can be taken in a state, out of those with one and the same trigger."""
    named = [t for t in fitting if state.name in t.source]
    general = [
        t for t in fitting if t.from_any and t not in named and t.trigger not in state.ignores
    ]
    return tuple(
        sorted(named, key=lambda t: -t.priority) + sorted(general, key=lambda t: -t.priority)
    )

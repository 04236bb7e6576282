"""Whether the states and events that a declaration names are there, and what was meant if not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elastic_fsm.declaration import ANY, SAME
from elastic_fsm.problems import Problem, closest, did_you_mean
from elastic_fsm.reading import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.checks.context import Check, Context
    from elastic_fsm.declaration import MachineSpec, TransitionSpec

__all__ = ["CHECKS", "as_meant"]


def as_meant(spec: MachineSpec, events: set[str]) -> MachineSpec:
    """The declaration with misspelt states and events put right, as far as can be guessed."""

    def state(name: str) -> str:
        return name if name in (ANY, SAME) else closest(name, spec.states) or name

    def event(name: str) -> str:
        return closest(name, events) or name

    return replace(
        spec,
        initial=state(spec.initial),
        states={
            name: s._replace(ignores=tuple(map(event, s.ignores)))
            for name, s in spec.states.items()
        },
        transitions={
            name: t._replace(
                trigger=event(t.trigger),
                source=tuple(map(state, t.source)),
                dest=None if t.dest is None else state(t.dest),
            )
            for name, t in spec.transitions.items()
        },
    )


def _initial(context: Context) -> Iterator[Problem]:
    initial, states = context.spec.initial, context.spec.states
    path = "machine.initial"
    if not initial or not states:
        return
    if initial not in states:
        fix = did_you_mean(initial, states)
        yield Problem(f"unknown state {initial!r}", path=path, fix=fix)
    elif states[initial].final:
        yield Problem(f"the initial state {initial} is final", path=path)


def _arrow_ends(context: Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        for source in t.source:
            yield from _source(context, t, source)
        if t.dest not in (None, SAME, NOWHERE, *context.spec.states):
            fix = did_you_mean(str(t.dest), context.spec.states)
            yield Problem(f"unknown state {t.dest!r}", path=f"{t.path}.dest", fix=fix)


def _source(context: Context, t: TransitionSpec, source: str) -> Iterator[Problem]:
    state = context.spec.states.get(source)
    path = f"{t.path}.source"
    if source == ANY:
        return
    if state is None:
        fix = did_you_mean(source, [*context.spec.states, ANY])
        yield Problem(f"unknown state {source!r}", path=path, fix=fix)
    elif state.final:
        fix = f"take {source} out of `source`, or `final` off {source}"
        yield Problem(f"a way out of the final state {source}", path=path, fix=fix)


def _events(context: Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        if t.trigger and t.trigger not in context.events:
            fix = did_you_mean(t.trigger, context.events)
            yield Problem(f"unknown event {t.trigger!r}", path=f"{t.path}.trigger", fix=fix)
    for state in context.spec.states.values():
        for event in state.ignores:
            if event not in context.events:
                fix = did_you_mean(event, context.events)
                yield Problem(f"unknown event {event!r}", path=f"{state.path}.ignores", fix=fix)


CHECKS: tuple[Check, ...] = (_initial, _arrow_ends, _events)

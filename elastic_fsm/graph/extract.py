"""From a declaration to a diagram; the only module here that knows what a machine is.

Two things are worked out that the declaration does not say in so many words. A state without a
``worker_state`` shows what was shown before, which depends on the way into it: all that it can
be is collected along the arrows. And the main road is the shortest way to where workers are
healthy and from there to the end with exit code 0, because that is what a run is for; over what
can happen in any state it leads only where nothing else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.declaration import ANY, SAME
from elastic_fsm.durations import say_seconds
from elastic_fsm.graph.model import Call, Diagram, Edge, Node
from elastic_fsm.group import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from elastic_fsm.declaration import MachineSpec, StateSpec, TransitionSpec, Use

__all__ = ["diagram_of"]


def diagram_of(spec: MachineSpec, name: str = "machine") -> Diagram:
    """The diagram of a declaration; ``name`` is its title."""
    edges = {t.name: _edge(spec, t) for t in spec.transitions.values()}
    shown = _shown(spec, edges.values())
    return Diagram(
        name=name,
        doc=spec.doc,
        initial=spec.initial,
        nodes={s.name: _node(s, shown[s.name]) for s in spec.states.values()},
        edges=edges,
        road=_main_road(spec, edges.values()),
    )


def _node(state: StateSpec, shows: tuple[str, ...]) -> Node:
    return Node(
        name=state.name,
        doc=state.doc,
        shows=shows,
        on_enter=_calls(state.on_enter),
        on_exit=_calls(state.on_exit),
        timeouts={event: _delay(v) for event, v in state.timeouts.items() if v is not None},
        ignores=state.ignores,
        final=state.final,
        exit_code="" if state.exit_code is None else str(state.exit_code),
    )


def _edge(spec: MachineSpec, t: TransitionSpec) -> Edge:
    starts = spec.sources(t)
    return Edge(
        name=t.name,
        doc=t.doc,
        trigger=t.trigger,
        sources=tuple(s for s in t.source if s != ANY),
        from_any=t.from_any,
        others=tuple(s for s in starts if s not in t.source),
        dest=None if t.dest == SAME else t.dest,
        again=t.dest == SAME,
        conditions=_calls(t.conditions),
        unless=_calls(t.unless),
        before=_calls(t.before),
        after=_calls(t.after),
        priority=t.priority,
    )


def _calls(uses: Iterable[Use]) -> tuple[Call, ...]:
    return tuple(Call(use.name, use.arguments, str(use)) for use in uses)


def _delay(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{say_seconds(value)} s"


def _ways(edges: Iterable[Edge]) -> list[tuple[str, str]]:
    """Every step from one state into another."""
    return [
        (source, edge.target(source)) for edge in edges for source in (*edge.sources, *edge.others)
    ]


def _shown(spec: MachineSpec, edges: Iterable[Edge]) -> dict[str, tuple[str, ...]]:
    declared = {s.name: s.worker_state for s in spec.states.values()}
    shown: dict[str, set[str]] = {name: {ws} if ws else set() for name, ws in declared.items()}
    if not declared[spec.initial]:
        shown[spec.initial] = {WorkerState.INIT}  # what a group shows before anything happens
    ways = [(source, target) for source, target in _ways(edges) if not declared[target]]
    while more := [(s, t) for s, t in ways if not shown[s] <= shown[t]]:
        for source, target in more:
            shown[target] |= shown[source]
    order = [state.value for state in WorkerState]
    return {name: tuple(sorted(values, key=order.index)) for name, values in shown.items()}


def _main_road(spec: MachineSpec, edges: Collection[Edge]) -> tuple[str, ...]:
    states = spec.states
    named = [(source, edge.target(source)) for edge in edges for source in edge.sources]
    all_ways = _ways(edges)

    def way(start: str, is_end: Callable[[str], bool]) -> tuple[str, ...]:
        return _shortest(named, start, is_end) or _shortest(all_ways, start, is_end)

    begin = way(spec.initial, lambda s: states[s].worker_state == "HEALTHY") or (spec.initial,)
    to_the_end = way(begin[-1], lambda s: states[s].exit_code == 0)
    return (*begin, *to_the_end[1:]) if to_the_end else ()


def _shortest(
    ways: list[tuple[str, str]], start: str, is_end: Callable[[str], bool]
) -> tuple[str, ...]:
    """The way with the fewest steps; among several, the one that is declared first."""
    paths: dict[str, tuple[str, ...]] = {start: (start,)}
    for here in (queue := [start]):
        if is_end(here):
            return paths[here]
        for source, target in ways:
            if source == here and target not in paths:
                paths[target] = (*paths[here], target)
                queue.append(target)
    return ()

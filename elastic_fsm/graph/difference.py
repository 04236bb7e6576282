"""What one machine adds to another and takes from it: as a list, and as one picture of both."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from elastic_fsm.graph.model import Diagram, Layer, Look, Mark
from elastic_fsm.graph.text import arrow_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.graph.model import Arrow, Edge, Node

__all__ = ["Difference", "compare"]

# Where a name is in both machines, the old one is drawn under this name beside the new one.
_OLD = "{} (before)"


@dataclass(frozen=True, slots=True)
class Difference:
    """Both machines in one diagram, and the layer that says which part is whose."""

    both: Diagram
    layer: Layer
    text: str


def compare(old: Diagram, new: Diagram) -> Difference:
    """From ``old`` to ``new``; sentences and the order of the declaration do not count."""
    changed = {n for n in old.edges.keys() & new.edges.keys() if _unlike(old, new, n)}
    gone = {n: e for n, e in old.edges.items() if n not in new.edges}
    gone |= {_OLD.format(n): _lost(old.edges[n], new.edges[n]) for n in sorted(changed)}
    both = replace(
        new,
        name=f"{old.name} -> {new.name}",
        nodes={**new.nodes, **{n: s for n, s in old.nodes.items() if n not in new.nodes}},
        edges={**new.edges, **gone},
    )
    layer = Layer(
        nodes=_node_marks(old, new),
        arrows=_arrow_marks(both, old, set(gone)),
        title=f"from {old.name} to {new.name}: green is added or changed, red is gone",
    )
    return Difference(both, layer, "\n".join(_lines(old, new, changed)) + "\n")


def _unlike(old: Diagram, new: Diagram, name: str) -> bool:
    return _meaning(old.edges[name]) != _meaning(new.edges[name])


def _meaning(part: Node | Edge) -> dict[str, Any]:
    """All that matters to what a machine does. What a part is reached by is not its own."""
    derived = ("doc", "others", "shows")
    return {f.name: getattr(part, f.name) for f in fields(part) if f.name not in derived}


def _node_marks(old: Diagram, new: Diagram) -> dict[str, Mark]:
    marks = {n: Mark(Look.ADDED, "added") for n in new.nodes if n not in old.nodes}
    marks |= {n: Mark(Look.REMOVED, "gone") for n in old.nodes if n not in new.nodes}
    marks |= {n: Mark(Look.ADDED, "changed") for n in _changed_states(old, new)}
    return marks


def _changed_states(old: Diagram, new: Diagram) -> list[str]:
    common = [n for n in new.nodes if n in old.nodes]
    return [n for n in common if _meaning(old.nodes[n]) != _meaning(new.nodes[n])]


def _lost(old: Edge, new: Edge) -> Edge:
    """The old edge, beside the new one; where only its sources differ, from those it has lost."""
    name = _OLD.format(old.name)
    if not _same_but_for_sources(old, new):
        return replace(old, name=name)
    sources = tuple(s for s in old.sources if s not in new.sources)
    return replace(old, name=name, sources=sources, from_any=old.from_any and not new.from_any)


def _same_but_for_sources(old: Edge, new: Edge) -> bool:
    aligned = replace(new, sources=old.sources, from_any=old.from_any)
    return _meaning(old) == _meaning(aligned)


def _arrow_marks(both: Diagram, old: Diagram, gone: set[str]) -> dict[tuple[str, str], Mark]:
    marks = {}
    for arrow in both.arrows():
        before = old.edges.get(arrow.edge.name)
        if arrow.edge.name in gone:
            marks[arrow.edge.name, arrow.source] = Mark(Look.REMOVED, "-")
        elif before is None or not _has(before, arrow):
            marks[arrow.edge.name, arrow.source] = Mark(Look.ADDED, "+")
    return marks


def _has(edge: Edge, arrow: Arrow) -> bool:
    starts = edge.from_any if arrow.source == "any" else arrow.source in edge.sources
    return starts and _same_but_for_sources(edge, arrow.edge)


def _lines(old: Diagram, new: Diagram, changed: set[str]) -> Iterator[str]:
    yield f"from {old.name} to {new.name}"
    found = [*_states(old, new), *_edges(old, new, changed)]
    yield from found or ["  no difference"]


def _states(old: Diagram, new: Diagram) -> Iterator[str]:
    yield from (f"- state {n}" for n in old.nodes if n not in new.nodes)
    yield from (f"+ state {n}" for n in new.nodes if n not in old.nodes)
    for name in _changed_states(old, new):
        before, after = _meaning(old.nodes[name]), _meaning(new.nodes[name])
        parts = [
            f"{key}: {_shown(before[key])} -> {_shown(after[key])}"
            for key in before
            if before[key] != after[key]
        ]
        yield f"~ state {name}: {'; '.join(parts)}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def _edges(old: Diagram, new: Diagram, changed: set[str]) -> Iterator[str]:
    yield from (f"- {_edge(old, e)}" for n, e in old.edges.items() if n not in new.edges)
    yield from (f"+ {_edge(new, e)}" for n, e in new.edges.items() if n not in old.edges)
    for name in (n for n in new.edges if n in changed):
        yield f"- {_edge(old, old.edges[name])}"
        yield f"+ {_edge(new, new.edges[name])}"


def _edge(diagram: Diagram, edge: Edge) -> str:
    sources = ", ".join([*edge.sources, *(["any"] if edge.from_any else [])])
    return f"transition {edge.name}: {sources} on {arrow_line(_arrow(diagram, edge))}"


def _arrow(diagram: Diagram, edge: Edge) -> Arrow:
    return next(arrow for arrow in diagram.arrows() if arrow.edge is edge)

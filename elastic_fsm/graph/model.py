"""A diagram: what is drawn, in the words of a picture rather than of a machine.

Everything that a renderer needs is spelt out here, so that none of them looks at a machine: what
``any`` stands for, which state shows what, which way through the machine is the main road. A
:class:`Layer` is put over a diagram to say how a part of it looks: lit by a run, or added and
removed between two machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["Arrow", "Call", "Diagram", "Edge", "Layer", "Look", "Mark", "Node"]


@dataclass(frozen=True, slots=True)
class Call:
    """A condition or an action as it is used; ``text`` is how it is written on an arrow."""

    name: str
    arguments: Any
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Node:
    """A state. ``shows`` are the worker states that can be seen from outside while it lasts."""

    name: str
    doc: str
    shows: tuple[str, ...]
    on_enter: tuple[Call, ...] = ()
    on_exit: tuple[Call, ...] = ()
    timeouts: Mapping[str, str] = field(default_factory=dict)
    """By event, how long until its timer posts it; timers that never end are left out."""
    ignores: tuple[str, ...] = ()
    final: bool = False
    exit_code: str = ""

    @property
    def group(self) -> str:
        """The title of the group that it stands in."""
        return " or ".join(self.shows)


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition. ``others`` are the states that it starts from because it starts from ``any``.

    Without ``dest`` it is internal; ``again`` means that the state is left and entered anew.
    """

    name: str
    doc: str
    trigger: str
    sources: tuple[str, ...]
    from_any: bool = False
    others: tuple[str, ...] = ()
    dest: str | None = None
    again: bool = False
    conditions: tuple[Call, ...] = ()
    unless: tuple[Call, ...] = ()
    before: tuple[Call, ...] = ()
    after: tuple[Call, ...] = ()
    priority: int = 0

    @property
    def internal(self) -> bool:
        """Whether the state is neither left nor entered."""
        return self.dest is None and not self.again

    @property
    def guards(self) -> tuple[str, ...]:
        """What must hold, as text."""
        return (*map(str, self.conditions), *(f"not {call}" for call in self.unless))

    @property
    def actions(self) -> tuple[str, ...]:
        """What it does by itself, as text."""
        return tuple(map(str, (*self.before, *self.after)))

    def target(self, source: str) -> str:
        """The state after taking it from ``source``."""
        return self.dest or source


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge from one of its states; ``source`` is ``any`` for those that it does not name."""

    edge: Edge
    source: str
    target: str
    delay: str = ""
    """How long the timer runs when the arrow is taken by one."""


@dataclass(frozen=True, slots=True)
class Diagram:
    """Nodes and edges, both in the order of the declaration."""

    name: str
    doc: str
    initial: str
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    road: tuple[str, ...] = ()
    """The way of a run in which nothing goes wrong, from the initial state to the good end."""

    def groups(self) -> dict[str, list[Node]]:
        """The states by the worker state that they show."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            found.setdefault(node.group, []).append(node)
        return found

    def leaving(self, source: str) -> list[Arrow]:
        """The arrows that name a state as their source, internal ones included; those first that
        are tried first."""
        node = self.nodes[source]
        edges = [edge for edge in self.edges.values() if source in edge.sources]
        edges.sort(key=lambda edge: -edge.priority)
        return [
            Arrow(edge, source, edge.target(source), node.timeouts.get(edge.trigger, ""))
            for edge in edges
        ]

    def from_any(self) -> list[Arrow]:
        """The arrows from every state that does not name them or ignore their event."""
        edges = [edge for edge in self.edges.values() if edge.from_any]
        edges.sort(key=lambda edge: -edge.priority)
        return [Arrow(edge, "any", edge.target("any")) for edge in edges]

    def outer(self) -> list[Arrow]:
        """Those from ``any`` that can stand around all states, for formats in which states nest.

        What enters its state anew has another target in each, so it cannot, and nor can the
        others of its event, which are tried before or after it.
        """
        anew = {arrow.edge.trigger for arrow in self.from_any() if arrow.edge.again}
        return [arrow for arrow in self.from_any() if arrow.edge.trigger not in anew]

    def inner(self, source: str, also: Collection[str] = ()) -> list[Arrow]:
        """What then stands in a state: its own arrows, and the others from ``any``; those of the
        events in ``also`` too."""
        outer = {arrow.edge.trigger for arrow in self.outer()} - set(also)
        delays = self.nodes[source].timeouts
        general = [
            Arrow(a.edge, source, a.edge.target(source), delays.get(a.edge.trigger, ""))
            for a in self.from_any()
            if a.edge.trigger not in outer and source in a.edge.others
        ]
        return self.leaving(source) + general

    def arrows(self) -> Iterator[Arrow]:
        """All of them, those from ``any`` last."""
        for name in self.nodes:
            yield from self.leaving(name)
        yield from self.from_any()

    def without_any(self) -> Diagram:
        """What can happen in a run that nothing from outside disturbs: no arrows from ``any``,
        and no states that only those lead to."""
        edges = {name: edge for name, edge in self.edges.items() if not edge.from_any}
        found = [self.initial]
        for here in found:
            targets = [e.target(here) for e in edges.values() if here in e.sources]
            found += [target for target in dict.fromkeys(targets) if target not in found]
        nodes = {name: node for name, node in self.nodes.items() if name in found}
        kept = {
            name: replace(edge, sources=sources)
            for name, edge in edges.items()
            if (sources := tuple(s for s in edge.sources if s in nodes))
        }
        return replace(self, nodes=nodes, edges=kept)

    def leading_back(self) -> set[tuple[str, str]]:
        """The pairs of states whose arrows lead back: to one on the way there, or to the same one.

        The way is the main road, and beside it whatever is declared first.
        """
        found: set[tuple[str, str]] = set()
        seen: set[str] = set()
        for start in (self.road, (self.initial,), *((name,) for name in self.nodes)):
            # A search in depth. `way` is its stack: the states on the way here, each with those of
            # its arrows that are still to be followed. The road is put there at once, so that
            # nothing declared earlier can make it lead back.
            new = self.nodes.keys() - seen
            way = {name: iter(self.leaving(name)) for name in start if name in new}
            seen.update(way)
            while way:
                here = next(reversed(way))
                arrow = next(way[here], None)
                if arrow is None:
                    del way[here]
                elif arrow.target in way:
                    found.add((here, arrow.target))
                elif arrow.target not in seen:
                    seen.add(arrow.target)
                    way[arrow.target] = iter(self.leaving(arrow.target))
        return found

    def on_road(self, source: str, target: str) -> bool:
        """Whether the main road leads from one state straight to the other."""
        return (source, target) in zip(self.road, self.road[1:], strict=False)


class Look(StrEnum):
    """How a part of a diagram differs from the others."""

    CURRENT = "current"
    VISITED = "visited"
    LAST = "last"
    FAINT = "faint"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Mark:
    """A look, and a few words that are written beside the name."""

    look: Look
    note: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """Marks of states by name, and of arrows by the names of edge and source.

    What has no mark looks as ``otherwise``, or as always when that is None.
    """

    nodes: Mapping[str, Mark] = field(default_factory=dict)
    arrows: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    otherwise: Mark | None = None
    title: str = ""

    def of_node(self, name: str) -> Mark | None:
        """How a state looks."""
        return self.nodes.get(name, self.otherwise)

    def of_arrow(self, arrow: Arrow) -> Mark | None:
        """How an arrow looks."""
        return self.arrows.get((arrow.edge.name, arrow.source), self.otherwise)

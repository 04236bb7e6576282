"""Mermaid's ``stateDiagram-v2``, which GitHub and GitLab draw inside a page.

Groups are colours here, not boxes: Mermaid does not lead arrows between states of different
boxes reliably. Its syntax takes a colon and a semicolon in a label for more syntax, so those
are written as entities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.graph.model import Look
from elastic_fsm.graph.palette import GROUPS, MIXED, Colours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.graph.model import Arrow, Diagram, Layer, Node

__all__ = ["to_mermaid"]

_LOOKS = {
    Look.CURRENT: f"stroke:{Colours.CURRENT_LINE},stroke-width:5px,fill:{Colours.CURRENT}",
    Look.VISITED: f"stroke:{Colours.TAKEN},stroke-width:2px",
    Look.FAINT: "stroke-dasharray:2",
    Look.ADDED: f"stroke:{Colours.ADDED},stroke-width:3px",
    Look.REMOVED: f"stroke:{Colours.REMOVED},stroke-width:2px,stroke-dasharray:4",
}


def to_mermaid(diagram: Diagram, layer: Layer | None = None) -> str:
    """The diagram; internal transitions stand in their state."""
    general = diagram.from_any()
    lines = ["stateDiagram-v2", "  direction LR"]
    for node in diagram.nodes.values():
        lines += _node(diagram, node, layer)
    lines += [f"  any: {_label(['any other state', *_inner(general, layer)])}"] * bool(general)
    lines += [f"  [*] --> {_id(diagram.initial)}"]
    for name in diagram.nodes:
        lines += _arrows(diagram.leaving(name), layer)
    lines += [f"  {_id(n.name)} --> [*]" for n in diagram.nodes.values() if n.final]
    lines += _arrows(general, layer)
    lines += _classes(diagram, layer)
    return "\n".join(lines) + "\n"


def _node(diagram: Diagram, node: Node, layer: Layer | None) -> Iterator[str]:
    mark = layer.of_node(node.name) if layer else None
    parts = [f"{node.name} {mark.note}" if mark and mark.note else node.name]
    parts += [f"exit code {node.exit_code}"] * bool(node.exit_code)
    parts += [f"enter / {call}" for call in node.on_enter]
    parts += [f"exit / {call}" for call in node.on_exit]
    parts += _inner(diagram.leaving(node.name), layer)
    yield f"  {_id(node.name)}: {_label(parts)}"


def _inner(arrows: list[Arrow], layer: Layer | None) -> list[str]:
    return [f"stay on {_text(a, layer)}" for a in arrows if a.edge.internal]


def _arrows(arrows: list[Arrow], layer: Layer | None) -> list[str]:
    """One line for all arrows that lead from one state to the same other one."""
    by_target: dict[str, list[Arrow]] = {}
    for arrow in arrows:
        if not arrow.edge.internal:
            by_target.setdefault(arrow.target, []).append(arrow)
    return [
        f"  {_id(ones[0].source)} --> {_id(target)}: {_label([_text(a, layer) for a in ones])}"
        for target, ones in by_target.items()
    ]


def _text(arrow: Arrow, layer: Layer | None) -> str:
    edge = arrow.edge
    mark = layer.of_arrow(arrow) if layer else None
    return "".join(
        [
            edge.trigger,
            f" {mark.note}" if mark and mark.note else "",
            f" after {arrow.delay}" if arrow.delay else "",
            f" [{' and '.join(edge.guards)}]" if edge.guards else "",
            f" / {', '.join(edge.actions)}" if edge.actions else "",
        ]
    )


def _label(parts: list[str]) -> str:
    return "<br/>".join(part.translate(_ENTITIES) for part in parts)


_ENTITIES = str.maketrans({";": "#59;", ":": "#58;", "<": "#lt;", ">": "#gt;", '"': "#quot;"})


def _id(name: str) -> str:
    """Words of Mermaid's own language cannot name a state."""
    return f"{name}_" if name.lower() in _RESERVED else name


_RESERVED = {"state", "end", "note", "direction", "class", "classdef", "style", "default"}


def _classes(diagram: Diagram, layer: Layer | None) -> Iterator[str]:
    for number, (title, nodes) in enumerate(diagram.groups().items()):
        ground, border = GROUPS.get(title, MIXED)
        yield f"  classDef shows{number} fill:{ground},stroke:{border},color:{Colours.TEXT}"
        yield f"  class {','.join(_id(n.name) for n in nodes)} shows{number}"
    if diagram.from_any():
        yield f"  classDef quiet fill:none,stroke:{Colours.ANY},stroke-dasharray:4"
        yield "  class any quiet"
    for name in diagram.nodes if layer else ():
        mark = layer.of_node(name) if layer else None
        if mark and mark.look in _LOOKS:
            yield f"  style {_id(name)} {_LOOKS[mark.look]}"

"""Plain text for a terminal: the road, then every state with its arrows; at most 100 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.graph.model import Arrow, Diagram, Layer, Mark, Node

__all__ = ["arrow_line", "to_text"]

_WIDTH = 100


def to_text(diagram: Diagram, layer: Layer | None = None) -> str:
    """The whole machine; what starts from ``any`` stands once, at the end."""
    lines = [*_head(diagram, layer)]
    for title, nodes in diagram.groups().items():
        lines += ["", title]
        for node in nodes:
            lines += _node(diagram, node, layer)
    general = diagram.from_any()
    if general:
        lines += ["", "any other state"]
        lines += [line for arrow in general for line in _arrow(arrow, layer)]
    return "\n".join(lines) + "\n"


def _head(diagram: Diagram, layer: Layer | None) -> Iterator[str]:
    count = f"{len(diagram.nodes)} states, {len(diagram.edges)} transitions"
    yield f"{diagram.name}: {count}"
    if layer and layer.title:
        yield from _wrapped(layer.title, "")
    if diagram.road:
        yield from _wrapped(" -> ".join(diagram.road), "", later=" " * 5)


def _node(diagram: Diagram, node: Node, layer: Layer | None) -> Iterator[str]:
    sign = "*" if node.name == diagram.initial else " "
    about = _about(node, layer.of_node(node.name) if layer else None)
    yield from _wrapped(f"{node.name}{about}", f"{sign} ", later=" " * 8)
    for arrow in diagram.leaving(node.name):
        yield from _arrow(arrow, layer)


def _about(node: Node, mark: Mark | None) -> str:
    parts = [f" (final, exit code: {node.exit_code})"] if node.final else []
    parts += [f" {mark.note}"] if mark and mark.note else []
    enter = ", ".join(map(str, node.on_enter))
    leave = ", ".join(map(str, node.on_exit))
    parts += [f"  enter / {enter}"] if enter else []
    parts += [f"  exit / {leave}"] if leave else []
    return "".join(parts)


def _arrow(arrow: Arrow, layer: Layer | None) -> Iterator[str]:
    mark = layer.of_arrow(arrow) if layer else None
    note = f"  {mark.note}" if mark and mark.note else ""
    yield from _wrapped(arrow_line(arrow) + note, " " * 6, later=" " * 10)


def arrow_line(arrow: Arrow) -> str:
    """An arrow in one line: what it takes, where it leads, what it does."""
    edge = arrow.edge
    delay = f" after {arrow.delay}" if arrow.delay else ""
    guards = f" [{' and '.join(edge.guards)}]" if edge.guards else ""
    target = "stays" if edge.internal else "itself" if edge.again else arrow.target
    actions = f" / {', '.join(edge.actions)}" if edge.actions else ""
    return f"{edge.trigger}{delay}{guards} -> {target}{actions}"


def _wrapped(text: str, first: str, *, later: str = "  ") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_on_hyphens=False,
    )

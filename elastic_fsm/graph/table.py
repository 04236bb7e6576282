"""Markdown: the table of transitions alone, or a page on the whole machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.graph.model import Diagram, Edge, Layer, Mark, Node

__all__ = ["to_page", "to_table"]


def to_table(diagram: Diagram, layer: Layer | None = None) -> str:
    """One row for each transition, in the order of the declaration."""
    edges = list(diagram.edges.values())
    head = ["transition", "what it means", "from", "event", "if", "to", "actions"]
    rows = [_edge(edge, diagram) for edge in edges]
    if layer:
        head.insert(1, "")
        for edge, row in zip(edges, rows, strict=True):
            row.insert(1, _notes(edge, layer))
    return _table(head, rows)


def to_page(diagram: Diagram, layer: Layer | None = None) -> str:
    """What the machine is for, its states and its transitions, with a sentence for each."""
    parts = [
        diagram.doc,
        _states(diagram, layer),
        to_table(diagram, layer).rstrip("\n"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _states(diagram: Diagram, layer: Layer | None) -> str:
    head = ["state", "what it means", "shows", "enter", "exit", "ignores"]
    rows = [_state(node, diagram) for node in diagram.nodes.values()]
    if layer:
        head.insert(1, "")
        for node, row in zip(diagram.nodes.values(), rows, strict=True):
            row.insert(1, _note(layer.of_node(node.name)))
    return _table(head, rows).rstrip("\n")


def _state(node: Node, diagram: Diagram) -> list[str]:
    first = " (initial)" if node.name == diagram.initial else ""
    final = f" (final, exit code: {node.exit_code})" if node.final else ""
    return [
        f"**{node.name}**{first}{final}",
        node.doc,
        node.group,
        _codes(map(str, node.on_enter)),
        _codes(map(str, node.on_exit)),
        _codes(node.ignores),
    ]


def _edge(edge: Edge, diagram: Diagram) -> list[str]:
    sources = [*edge.sources, *(["*any other state*"] if edge.from_any else [])]
    delays = {diagram.nodes[s].timeouts.get(edge.trigger) for s in edge.sources} - {None}
    timer = f" after {_codes(map(str, sorted(map(str, delays))))}" if delays else ""
    return [
        edge.name,
        edge.doc,
        ", ".join(sources),
        f"{_codes([edge.trigger])}{timer}",
        " and ".join(_codes([guard]) for guard in edge.guards),
        "*stays*" if edge.internal else "*the same, anew*" if edge.again else str(edge.dest),
        _codes(edge.actions),
    ]


def _notes(edge: Edge, layer: Layer) -> str:
    """The notes of all arrows that an edge stands for."""
    found = {s: mark.note for (name, s), mark in layer.arrows.items() if name == edge.name}
    return ", ".join(f"{s} {note}" if len(found) > 1 else note for s, note in found.items())


def _note(mark: Mark | None) -> str:
    return mark.note if mark else ""


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

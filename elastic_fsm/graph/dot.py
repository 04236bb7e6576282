"""Graphviz' DOT. Layout is left to ``dot``; what is decided here is what may be loud.

The main road is drawn thick, short and straight (a high weight), everything else thin, and what
starts from ``any`` stands apart in a dashed box at the end. Arrows between the same two states
share one line, their labels stacked; internal transitions are small print in their state.

A label is a node in the middle of its line. The label of an edge ``dot`` may lay across the border
of a box, or into one that has nothing to do with it; a node it keeps clear of boxes, of other
labels and of lines.

The names of nodes that are no states, ``*``, ``any`` and ``A -> B``, cannot be those of states,
which are identifiers and never ``any``.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from elastic_fsm.graph.model import Look
from elastic_fsm.graph.palette import GROUPS, MIXED, PAPER, Colours
from elastic_fsm.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from elastic_fsm.graph.model import Arrow, Diagram, Layer, Mark, Node

__all__ = ["to_dot"]

_HEAD = f"""\
  graph [rankdir=LR, ranksep=0.2, nodesep=0.2, pad=0.3, mclimit=8, newrank=true,
         bgcolor="{PAPER}", labelloc=t, fontname="Arial", fontsize=13, fontcolor="{Colours.TEXT}"];
  node [shape=box, style="rounded,filled", fillcolor="{Colours.BOX}", color="{Colours.BOX_LINE}",
        fontname="Arial", fontsize=13, fontcolor="{Colours.TEXT}",
        margin="0.14,0.08"];
  edge [color="{Colours.LINE}", fontname="Arial", fontsize=10,
        fontcolor="{Colours.TEXT}", arrowsize=0.7];
"""


def to_dot(diagram: Diagram, layer: Layer | None = None) -> str:
    """The picture's description."""
    return printable("\n".join(_Writer(diagram, layer).lines())) + "\n"


class _Writer:
    def __init__(self, diagram: Diagram, layer: Layer | None) -> None:
        self.diagram = diagram
        self.layer = layer
        self.boxes = {f"cluster_{number}": box for number, box in enumerate(self._boxes())}
        self.box_of = {node.name: box for box, nodes in self.boxes.items() for node in nodes}
        self.leading_back = diagram.leading_back()

    def lines(self) -> list[str]:
        lines = [f"digraph {_quoted(self.diagram.name)} {{", _HEAD]
        if self.layer and self.layer.title:
            lines.append(f"  label=<<b>{escape(self.layer.title)}</b><br/> <br/>>;")
        lines += self._initial()
        for box, nodes in self.boxes.items():
            lines += self._group(box, nodes[0].group, nodes)
        if general := self.diagram.from_any():
            lines.append(self._any(general))
        for together in self._together():
            lines += self._line(together)
        return [*lines, "}"]

    def _boxes(self) -> list[list[Node]]:
        """The states of a group that arrows connect, together.

        One box for all that show the same would pull far ends of the picture together; the same
        title and colour say it as well.
        """
        boxes: list[list[Node]] = []
        for node in self.diagram.nodes.values():
            near = self._neighbours(node.name)
            mine = [b for b in boxes if b[0].group == node.group and any(n.name in near for n in b)]
            boxes = [box for box in boxes if box not in mine]
            boxes.append([*(n for box in mine for n in box), node])
        return boxes

    def _neighbours(self, name: str) -> set[str]:
        arrows = [(a.source, a.target) for n in self.diagram.nodes for a in self.diagram.leaving(n)]
        return {end for ends in arrows if name in ends for end in ends}

    def _initial(self) -> list[str]:
        line = f'color="{Colours.ROAD}", fillcolor="{Colours.ROAD}"'
        return [
            f'  "*" [shape=circle, style=filled, label="", width=0.16, {line}];',
            f'  "*" -> {_quoted(self.diagram.initial)} [weight=14, color="{Colours.ROAD}", '
            "penwidth=2];",
        ]

    def _group(self, box: str, title: str, nodes: list[Node]) -> list[str]:
        ground, border = GROUPS.get(title, MIXED)
        return [
            f"  subgraph {box} {{",
            # On the right fewest arrows cross the title: they leave upwards to the left.
            f'    label=<<font color="{Colours.QUIET_TEXT}">{escape(title)}</font>>; labeljust=r; '
            f'fontsize=11; style="rounded,filled"; fillcolor="{ground}"; color="{border}"; '
            "margin=10;",
            *(f"    {self._node(node)}" for node in nodes),
            "  }",
        ]

    def _node(self, node: Node) -> str:
        mark = self.layer.of_node(node.name) if self.layer else None
        text = _text_colours(mark)
        rows = [_row(f"<b>{escape(node.name)}</b>", color=text[0], size=13)]
        if mark and mark.note:
            rows.append(_row(f"<b>{escape(mark.note)}</b>", color=text[1]))
        if node.exit_code:
            rows.append(_row(f"exit code: {escape(node.exit_code)}", color=text[1]))
        rows += [_row(f"enter / {escape(str(c))}", color=text[2]) for c in node.on_enter]
        rows += [_row(f"exit / {escape(str(c))}", color=text[2]) for c in node.on_exit]
        inner = [arrow for arrow in self.diagram.leaving(node.name) if arrow.edge.internal]
        rows += [self._label_row(arrow, quiet=text[1]) for arrow in inner]
        extra = ", peripheries=2" if node.final else ""
        return f"{_quoted(node.name)} [label={_table(rows)}{extra}{_node_style(mark)}];"

    def _any(self, arrows: list[Arrow]) -> str:
        rows = [_row("any other state", color=Colours.QUIET_TEXT, size=11)]
        inner = [arrow for arrow in arrows if arrow.edge.internal]
        rows += [self._label_row(arrow, quiet=Colours.QUIET_TEXT) for arrow in inner]
        return (
            f'  any [label={_table(rows)}, style="rounded,dashed", color="{Colours.ANY}", '
            f'fontcolor="{Colours.QUIET_TEXT}"];'
        )

    def _together(self) -> list[list[Arrow]]:
        """The arrows that share a line: all that lead from one state to the same other one.

        By where they lead, whatever the order of the declaration: so `dot` comes to the best
        pictures of the shipped machines.
        """
        found: dict[tuple[str, str], list[Arrow]] = {}
        for arrow in self.diagram.arrows():
            if not arrow.edge.internal:
                found.setdefault((arrow.target, arrow.source), []).append(arrow)
        return [found[ends] for ends in sorted(found, key=lambda ends: ends[0])]

    def _line(self, arrows: list[Arrow]) -> list[str]:
        """The label, and the two halves of the line, each from left to right."""
        first = arrows[0]
        source, target = _quoted(first.source), _quoted(first.target)
        label = _quoted(f"{first.source} -> {first.target}")
        style = self._line_style(arrows)
        # Twice as heavy, so short: the label stands near the state that the arrow leaves.
        weight = 14 if self.diagram.on_road(first.source, first.target) else 1
        near, far = f"weight={2 * weight}{style}", f"weight={weight}{style}"
        if (first.source, first.target) in self.leading_back:
            halves = (
                f"{target} -> {label} [dir=back, {far}]; {label} -> {source} [dir=none, {near}];"
            )
        else:
            halves = f"{source} -> {label} [dir=none, {near}]; {label} -> {target} [{far}];"
        return [f"  {self._label(label, arrows)}", f"  {halves}"]

    def _label(self, name: str, arrows: list[Arrow]) -> str:
        """In a box when both its ends are, else outside of all."""
        label = f"{name} [label={_table(map(self._label_row, arrows))}, {_LABEL_STYLE}];"
        box, other = (self.box_of.get(end) for end in (arrows[0].source, arrows[0].target))
        return f"subgraph {box} {{ {label} }}" if box and box == other else label

    def _line_style(self, arrows: list[Arrow]) -> str:
        first = arrows[0]
        from_any = first.source == "any"
        dashed = ", style=dashed" if from_any else ""
        if style := _LINE_STYLES.get(_loudest([self._mark(arrow) for arrow in arrows])):
            return dashed + style
        if self.diagram.on_road(first.source, first.target) and not self.layer:
            return f', color="{Colours.ROAD}", penwidth=2.4, arrowsize=0.9'
        return f'{dashed}, color="{Colours.ANY}"' if from_any else ""

    def _mark(self, arrow: Arrow) -> Mark | None:
        return self.layer.of_arrow(arrow) if self.layer else None

    def _label_row(self, arrow: Arrow, *, quiet: str = "") -> str:
        edge, mark = arrow.edge, self._mark(arrow)
        loud, color = quiet or Colours.TEXT, quiet or Colours.QUIET_TEXT
        guard, action = Colours.GUARD, Colours.ACTION
        if mark and mark.look in _ROW_COLOURS:
            loud = color = guard = action = _ROW_COLOURS[mark.look]
        stay = "stay on " if edge.internal else ""
        note = f" {mark.note}" if mark and mark.note else ""
        # In one piece: a browser's letters may be wider than those that the layout is made for.
        title = f"{stay}<b>{escape(edge.trigger + note)}</b>"
        parts = [f'<font color="{loud}">{title}</font>']
        if arrow.delay:
            parts.append(f'<font color="{color}">after {escape(arrow.delay)}</font>')
        if edge.guards:
            lines = _in_brackets(edge.guards)
            parts += [f'<font color="{guard}">{escape(line)}</font>' for line in lines]
        parts += [f'<font color="{action}">/ {escape(name)}</font>' for name in edge.actions]
        return "".join(
            f'<tr><td align="left"><font point-size="10">{part}</font></td></tr>' for part in parts
        )


_LABEL_STYLE = 'shape=plaintext, style="", width=0, height=0, margin="0.05,0.03"'
_LINE_STYLES: dict[Look | None, str] = {
    Look.LAST: f', color="{Colours.LAST}", penwidth=3.2, arrowsize=1',
    Look.VISITED: f', color="{Colours.TAKEN}", penwidth=2, arrowsize=0.9',
    Look.ADDED: f', color="{Colours.ADDED}", penwidth=2.2, arrowsize=0.9',
    Look.REMOVED: f', color="{Colours.REMOVED}", penwidth=1.6, style=dashed',
    Look.FAINT: f', color="{Colours.FAINT}"',
}
_ROW_COLOURS = {
    Look.LAST: Colours.LAST,
    Look.VISITED: Colours.TAKEN,
    Look.FAINT: Colours.FAINT_TEXT,
    Look.ADDED: Colours.ADDED,
    Look.REMOVED: Colours.REMOVED,
}
_NODE_STYLES = {
    Look.CURRENT: (
        f', fillcolor="{Colours.CURRENT}", color="{Colours.CURRENT_LINE}", penwidth=2.4'
    ),
    Look.VISITED: f', color="{Colours.TAKEN}", penwidth=1.8',
    Look.FAINT: f', color="{Colours.FAINT}"',
    Look.ADDED: f', color="{Colours.ADDED}", penwidth=2.4',
    Look.REMOVED: f', color="{Colours.REMOVED}", style="rounded,filled,dashed", penwidth=1.6',
}
_NODE_TEXT = {
    Look.CURRENT: Colours.CURRENT_TEXT,
    Look.FAINT: Colours.FAINT_TEXT,
    Look.ADDED: Colours.ADDED,
    Look.REMOVED: Colours.REMOVED,
}


def _loudest(marks: list[Mark | None]) -> Look | None:
    """How a line looks that several arrows share.

    It was taken when one of them was; but it is new, or gone, only when all of them are.
    """
    looks = [mark.look if mark else None for mark in marks]
    for taken in (Look.LAST, Look.VISITED):
        if taken in looks:
            return taken
    return looks[0] if len(set(looks)) == 1 else None


def _node_style(mark: Mark | None) -> str:
    return _NODE_STYLES.get(mark.look, "") if mark else ""


def _text_colours(mark: Mark | None) -> tuple[str, str, str]:
    """Of a state's name, its small print and its actions."""
    if mark and mark.look in _NODE_TEXT:
        one = _NODE_TEXT[mark.look]
        return one, one, one
    return Colours.TEXT, Colours.QUIET_TEXT, Colours.ACTION


def _in_brackets(guards: Sequence[str]) -> list[str]:
    """A line for each."""
    lines = [guards[0], *(f"and {guard}" for guard in guards[1:])]
    lines[0] = f"[{lines[0]}"
    lines[-1] += "]"
    return lines


def _row(text: str, *, color: str, size: int = 10) -> str:
    font = f'<font color="{color}" point-size="{size}">{text}</font>'
    align = "" if size > 10 else ' align="left"'
    return f"<tr><td{align}>{font}</td></tr>"


def _table(rows: Iterable[str]) -> str:
    attributes = 'border="0" cellborder="0" cellspacing="0" cellpadding="1"'
    return f"<<table {attributes}>{''.join(rows)}</table>>"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

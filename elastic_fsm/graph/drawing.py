"""A diagram that can be shown: in every format, and by itself in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from elastic_fsm.declaration import ANY, SAME, MachineSpec
from elastic_fsm.graph.dot import to_dot
from elastic_fsm.graph.extract import diagram_of
from elastic_fsm.graph.library import to_library_json
from elastic_fsm.graph.mermaid import to_mermaid
from elastic_fsm.graph.pictures import draw
from elastic_fsm.graph.scxml import to_scxml
from elastic_fsm.graph.table import to_page, to_table
from elastic_fsm.graph.text import to_text
from elastic_fsm.graph.xstate import to_xstate_json
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem, did_you_mean
from elastic_fsm.reading import read_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.graph.model import Diagram, Layer
    from elastic_fsm.machine import Machine

__all__ = [
    "EXPORTS",
    "FORMATS",
    "PICTURES",
    "Drawing",
    "format_of",
    "machine_diagram",
    "read_spec",
    "write",
]


class _Renderer(Protocol):
    def __call__(self, diagram: Diagram, layer: Layer | None = None) -> str: ...


FORMATS: Mapping[str, _Renderer] = {
    "text": to_text,
    "dot": to_dot,
    "mermaid": to_mermaid,
    "table": to_table,
    "page": to_page,
    "xstate": to_xstate_json,
    "scxml": to_scxml,
    "transitions": to_library_json,
}
EXPORTS = ("xstate", "scxml", "transitions")
"""For machines, not for readers: always whole."""
PICTURES = ("svg", "png")
_BY_SUFFIX = {
    ".txt": "text",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".md": "page",
    ".json": "xstate",
    ".scxml": "scxml",
    ".svg": "svg",
    ".png": "png",
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A diagram and how it is to be shown. ``words`` are the command line that makes it again."""

    diagram: Diagram
    layer: Layer | None = None
    with_any: bool = True
    text: str = ""
    """Shown in the place of the machine as text, when there is something better to say."""
    words: str = ""

    def __str__(self) -> str:
        return self.render("text")

    def render(self, name: str) -> str:
        """One of the formats that are text."""
        if name == "text" and self.text:
            return self.text
        whole = self.with_any or name in EXPORTS
        return FORMATS[name](self.diagram if whole else self.diagram.without_any(), self.layer)

    def picture(self, kind: str) -> bytes | None:
        """An ``svg`` or a ``png``; None when there is no program that draws."""
        return draw(self.render("dot"), kind, words=self.words)

    def save(self, path: str | Path) -> bool:
        """Write it in the format that the name says; False when there is nothing that draws.

        Raises :class:`~elastic_fsm.BadInput` for a name without a format, or a place that cannot
        be written.
        """
        path = Path(path)
        name = format_of(path)
        made = self.picture(name) if name in PICTURES else self.render(name).encode()
        if made is not None:
            write(path, made)
        return made is not None

    def _repr_svg_(self) -> str | None:
        made = self.picture("svg")
        return made.decode() if made else None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": str(self)}
        if svg := self._repr_svg_():
            bundle["image/svg+xml"] = svg
        return bundle


def machine_diagram(
    machine: str | MachineSpec | Machine | Mapping[str, Any] = "elastic",
    /,
    *overrides: str,
    with_any: bool = True,
) -> Drawing:
    """The picture of a machine, for a notebook or a program.

    ``machine`` is a shipped or found one by name, with ``overrides`` as on the command line; or
    a declaration, read or as plain values; or a machine. Raises :class:`BadInput`.
    """
    if isinstance(machine, str):
        from elastic_fsm.config import compose

        composed = compose([f"machine={machine}", *overrides])
        spec, name = read_spec(composed.masked()["machine"]), machine
    elif isinstance(machine, Mapping):
        spec, name = read_spec(machine), "machine"
    else:
        spec = machine if isinstance(machine, MachineSpec) else machine.spec
        name = "machine"
    return Drawing(diagram_of(spec, name), with_any=with_any)


def read_spec(data: Any) -> MachineSpec:
    """A declaration that can be drawn; whether it can *run* is not asked.

    Raises :class:`BadInput` with what is wrong with its shape, and with the ends of its arrows.
    """
    spec, problems = read_machine(data)
    problems += _loose_ends(spec)
    if problems:
        raise BadInput(problems)
    return spec


def _loose_ends(spec: MachineSpec) -> Iterator[Problem]:
    ends = {"machine.initial": [spec.initial]} if spec.initial else {}
    for t in spec.transitions.values():
        ends[f"{t.path}.source"] = [s for s in t.source if s != ANY]
        ends[f"{t.path}.dest"] = [t.dest] if t.dest not in (None, SAME) else []
    for path, names in ends.items():
        for name in names:
            if name not in spec.states:
                fix = did_you_mean(name, spec.states)
                yield Problem(f"unknown state {name!r}", path=path, fix=fix)


def format_of(path: Path) -> str:
    """The format that a file's name asks for. Raises :class:`BadInput` when it asks for none."""
    if path.suffix not in _BY_SUFFIX:
        fix = f"use one of {' '.join(_BY_SUFFIX)}, or say --format"
        raise BadInput.of(f"{path.name!r} does not say which format", where=COMMAND_LINE, fix=fix)
    return _BY_SUFFIX[path.suffix]


def write(path: Path, content: bytes) -> None:
    """Write a file. Raises :class:`BadInput` when it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BadInput.of(
            f"cannot be written: {error.strerror}", where=str(path), fix="choose another place: -o"
        ) from error

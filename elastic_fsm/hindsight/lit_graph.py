"""The machine's graph with the run drawn into it, for the page; the seam to ``graph``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from elastic_fsm.graph.drawing import Drawing, read_spec
from elastic_fsm.graph.extract import diagram_of
from elastic_fsm.graph.run_layer import layer_of_run
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from elastic_fsm.journal_reader import JournalFile

__all__ = ["lit_graph"]


def lit_graph(journal: JournalFile) -> str | None:
    """An ``<svg>`` element; None where nothing is installed that draws, or it fails."""
    try:
        diagram = diagram_of(read_spec(journal.header["machine"]), "machine")
        drawing = Drawing(diagram, layer_of_run(diagram, journal))
        svg = drawing.picture("svg")
    except BadInput:  # a page without the picture is better than none
        return None
    if svg is None:
        return None
    text = svg.decode()
    # Nobody refers to the ids, and a page may hold the graphs of several nodes.
    return re.sub(r' id="[^"]*"', "", text[text.index("<svg") :])

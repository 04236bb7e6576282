"""What Graphviz makes of the description: no arrow runs through the words of one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from graph_machines import spec_of

from elastic_fsm.graph.dot import to_dot
from elastic_fsm.graph.extract import diagram_of

pytestmark = pytest.mark.skipif(
    not shutil.which("dot") and os.environ.get("CI") != "true", reason="needs Graphviz"
)

ROOM = 1.0
"""Points between the letters and a line, at least."""


def layout(dot):
    done = subprocess.run(["dot", "-Tjson"], input=dot.encode(), capture_output=True, check=True)
    return json.loads(done.stdout)


def words_of(edge):
    """Each line of a label with its box: left, bottom, right, top."""
    size = 0
    for part in edge.get("_ldraw_", []):
        if part["op"] == "F":
            size = part["size"]
        elif part["op"] == "T":
            (x, y), width = part["pt"], part["width"]
            left = {"l": x, "c": x - width / 2, "r": x - width}[part["align"]]
            yield part["text"], (left, y - 0.2 * size, left + width, y + 0.75 * size)


def points_of(edge, steps=40):
    """Points along the curves of an arrow."""
    for part in edge.get("_draw_", []):
        points = part["points"] if part["op"] in "bB" else []
        for start in range(0, len(points) - 3, 3):
            a, b, c, d = points[start : start + 4]
            for t in (step / steps for step in range(steps + 1)):
                u = 1 - t
                yield tuple(
                    u**3 * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t**3 * d[i]
                    for i in (0, 1)
                )


@pytest.mark.parametrize("machine", ["elastic", "fail_fast"])
@pytest.mark.parametrize("whole", [True, False])
def test_no_arrow_runs_through_words(machine, whole):
    diagram = diagram_of(spec_of(machine), machine)
    edges = layout(to_dot(diagram if whole else diagram.without_any()))["edges"]
    words = [word for edge in edges for word in words_of(edge)]
    assert len(words) > 20
    crossed = [
        (edge["_gvid"], text)
        for edge in edges
        for x, y in points_of(edge)
        for text, (left, bottom, right, top) in words
        if left - ROOM < x < right + ROOM and bottom - ROOM < y < top + ROOM
    ]
    assert crossed == []

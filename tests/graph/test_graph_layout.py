"""What Graphviz makes of the description: every label can be read, and belongs to one arrow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache

import pytest
from graph_machines import spec_of

from elastic_fsm.graph.dot import to_dot
from elastic_fsm.graph.extract import diagram_of

pytestmark = pytest.mark.skipif(
    not shutil.which("dot") and os.environ.get("CI") != "true", reason="needs Graphviz"
)

ROOM = 2.0
"""Points between the letters and a line, or the border of something else, at least."""


@cache
def layout(machine, whole):
    """What `dot` says of a picture: its nodes, labels among them, its boxes, its lines."""
    diagram = diagram_of(spec_of(machine), machine)
    dot = to_dot(diagram if whole else diagram.without_any())
    done = subprocess.run(["dot", "-Tjson"], input=dot.encode(), capture_output=True, check=True)
    drawn = json.loads(done.stdout)
    boxes = [item for item in drawn["objects"] if "nodes" in item]
    nodes = {item["name"]: item for item in drawn["objects"] if "pos" in item}
    return nodes, boxes, drawn["edges"]


SHIPPED = [("elastic", True), ("elastic", False), ("fail_fast", True), ("coarse", True)]


def named(param):
    return f"{param[0]}{'' if param[1] else ' without any'}"


@pytest.fixture(params=[*SHIPPED, ("drain", True)], ids=named)
def picture(request):
    return layout(*request.param)


def words_of(item):
    """Each line of the words of a node or a box, with its rectangle: left, bottom, right, top."""
    size = 0
    for part in item.get("_ldraw_", []):
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


def rectangle_of(item):
    if "bb" in item:
        return tuple(map(float, item["bb"].split(",")))
    x, y = map(float, item["pos"].split(","))
    width, height = 72 * float(item["width"]), 72 * float(item["height"])
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def overlap(one, other):
    return (
        one[0] < other[2] + ROOM
        and other[0] < one[2] + ROOM
        and one[1] < other[3] + ROOM
        and other[1] < one[3] + ROOM
    )


def inside(one, other):
    return (
        other[0] + ROOM < one[0]
        and one[2] < other[2] - ROOM
        and other[1] + ROOM < one[1]
        and one[3] < other[3] - ROOM
    )


def crossed(items, edges):
    """The words that lines run through, each with the number of the line."""
    words = [word for item in items for word in words_of(item)]
    return [
        (edge["_gvid"], text)
        for edge in edges
        for x, y in points_of(edge)
        for text, rectangle in words
        if overlap((x, y, x, y), rectangle)
    ]


def labels_of(nodes):
    """The labels with the states at both ends of their arrows."""
    found = {name: (node, set(name.split(" -> "))) for name, node in nodes.items() if "->" in name}
    assert len(found) > 10
    return found


def test_no_line_runs_through_words(picture):
    nodes, _, edges = picture
    assert crossed(nodes.values(), edges) == []


@pytest.mark.parametrize("shipped", SHIPPED, ids=named)
def test_no_line_runs_through_the_title_of_a_box_of_ours(shipped):
    """Of machines that users write that cannot be promised."""
    _, boxes, edges = layout(*shipped)
    assert crossed(boxes, edges) == []


def test_a_label_is_in_a_box_only_where_its_arrow_is(picture):
    nodes, boxes, _ = picture
    names = {node["_gvid"]: name for name, node in nodes.items()}
    wrong = []
    for name, (label, ends) in labels_of(nodes).items():
        for box in boxes:
            fits = (
                inside if ends <= {names[number] for number in box["nodes"]} else lambda *_: False
            )
            where = rectangle_of(label), rectangle_of(box)
            if overlap(*where) and not fits(*where):
                wrong.append((name, box["label"]))
    assert wrong == []


def test_labels_overlap_nothing(picture):
    nodes, _, _ = picture
    assert [
        (name, other)
        for name, (label, _) in labels_of(nodes).items()
        for other, node in nodes.items()
        if node is not label and overlap(rectangle_of(label), rectangle_of(node))
    ] == []

"""Every format says everything: golden files of one odd machine, and a property of all machines.

After a change of a renderer REWRITE=1 writes the golden files anew; keep only what you can
explain.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from graph_machines import spec_of

from elastic_fsm.graph.drawing import FORMATS, Drawing
from elastic_fsm.graph.extract import diagram_of
from elastic_fsm.graph.model import Layer, Look, Mark
from elastic_fsm.graph.pictures import find_program
from elastic_fsm.graph.text import to_text

GOLDEN = Path(__file__).parent / "golden"
SUFFIXES = {
    "text": "txt", "dot": "dot", "mermaid": "mmd", "table": "table.md", "page": "page.md",
    "xstate": "xstate.json", "scxml": "scxml", "transitions": "transitions.json",
}  # fmt: skip


def compare_with_file(path, made):
    if os.environ.get("REWRITE"):
        path.write_text(made)
    assert made == path.read_text()


@pytest.mark.parametrize("form", FORMATS)
def test_golden(form, quirks):
    compare_with_file(GOLDEN / f"quirks.{SUFFIXES[form]}", Drawing(quirks).render(form))


@pytest.mark.parametrize("form", ["text", "dot", "mermaid", "table", "page"])
def test_golden_of_a_layer(form, quirks):
    layer = Layer(
        nodes={"WORKING": Mark(Look.CURRENT, "3 s"), "WAITING": Mark(Look.VISITED, "1 s")},
        arrows={
            ("begin", "WAITING"): Mark(Look.LAST, "×2, last"),
            ("shrug", "any"): Mark(Look.VISITED, "×7"),
            ("pause", "WORKING"): Mark(Look.REMOVED, "-"),
            ("resume", "RESTING"): Mark(Look.ADDED, "+"),
        },
        otherwise=Mark(Look.FAINT),
        title="a run: in WORKING",
    )
    made = Drawing(quirks, layer).render(form)
    compare_with_file(GOLDEN / f"quirks_layer.{SUFFIXES[form]}", made)
    for note in ("×2, last", "×7") if form == "table" else ("3 s", "×2, last", "×7"):
        assert note in made


@pytest.mark.parametrize("form", FORMATS)
def test_every_state_and_every_arrow_is_in_every_format(form, spec, diagram):
    made = unescape(Drawing(diagram).render(form))
    said = made if form not in ("mermaid",) else re.sub("#59;|#58;", ":", made)
    for state in spec.states:
        assert re.search(rf"\b{state}\b", said)
    for transition in spec.transitions.values():
        assert transition.trigger in said
        for use in (*transition.conditions, *transition.unless, *transition.before):
            assert use.name in said


def arrows_of_dot(text):
    """Trigger, source and target of each arrow between states."""
    labels = dict(re.findall(r'"(\w+ -> \w+)" \[label=<(.*)>, shape=plaintext', text))
    lines = re.findall(r'^  "(\w+)" -> "(.+)" \[(.+)\]; "\2" -> "(\w+)" \[.+\];$', text, re.M)
    assert len(lines) == len(labels)
    found = []
    for left, label, style, right in lines:
        source, target = (right, left) if "dir=back" in style else (left, right)
        triggers = re.findall(r"<font color=\S+><b>(\w+)</b>", labels[label])
        found += [(trigger, source, target) for trigger in triggers]
    return found


def arrows_of_mermaid(text):
    pairs = re.findall(r"^  (\w+) --> (\w+): (.*)$", text, re.MULTILINE)
    return [
        (re.match(r"\w+", part)[0], source, target.removesuffix("_"))
        for source, target, label in pairs
        for part in label.split("<br/>")
    ]


@pytest.mark.parametrize(
    ("form", "parse"), [("dot", arrows_of_dot), ("mermaid", arrows_of_mermaid)]
)
def test_arrows_lead_where_the_declaration_says(form, parse, spec, diagram):
    expected = []
    for t in spec.transitions.values():
        for source in t.source:
            if t.dest is not None:
                target = source if t.dest == "same" else t.dest
                expected.append((t.trigger, source, target))
    assert sorted(parse(Drawing(diagram).render(form))) == sorted(expected)


def test_text_fits_a_terminal(diagram):
    assert max(map(len, to_text(diagram).splitlines())) <= 100


def test_text_marks_the_initial_state_and_the_ends(quirks):
    lines = to_text(quirks).splitlines()
    assert "* WAITING" in lines
    assert "  end (final, exit code: 0)" in lines
    assert lines[1] == "WAITING -> WORKING -> end"


def test_the_road_of_the_shipped_machine(diagram, name):
    if name != "quirks":
        road = "INIT JOINING STARTING HEALTHY SETTLING SUCCEEDED"
        assert diagram.road == tuple(road.split())


def diagram_with(name, **transitions):
    """The diagram of a machine with these transitions in front of its own, or in their place."""
    spec = spec_of(name)
    return diagram_of(replace(spec, transitions=transitions | spec.transitions | transitions))


def test_the_road_leaves_out_what_can_happen_in_any_state(name, diagram):
    ours = next(iter(spec_of(name).transitions.values()))
    short = ours._replace(name="short", source=("any",), dest=diagram.road[-1])
    assert diagram_with(name, short=short).road == diagram.road


def test_the_road_leads_over_any_where_nothing_else_does(quirks):
    done = spec_of("quirks").transitions["done"]._replace(source=("any",))
    assert diagram_with("quirks", done=done).road == quirks.road


def test_what_leads_back(diagram, name):
    back = {ends for ends in diagram.leading_back() if ends[0] != ends[1]}
    expected = {
        "elastic": {("BACKOFF", "JOINING"), ("REFORMING", "JOINING")},
        "fail_fast": set(),
        "quirks": {("RESTING", "WORKING")},
    }
    assert back == expected[name]


def test_the_road_never_leads_back_whatever_is_declared_first():
    elastic = diagram_of(spec_of("elastic"))
    recovered = replace(elastic.edges["restart"], sources=("UNHEALTHY",), dest="HEALTHY")
    edges = {"recovered": recovered, **dict(reversed(elastic.edges.items()))}
    back = replace(elastic, edges=edges).leading_back()
    assert ("UNHEALTHY", "HEALTHY") in back
    assert ("HEALTHY", "UNHEALTHY") not in back


def test_a_road_along_arrows_from_any_that_are_left_out(diagram):
    road = (*diagram.road[:-1], "nowhere", diagram.road[-1])
    assert replace(diagram, road=road).leading_back() == diagram.leading_back()


def test_what_a_state_shows_comes_along_the_arrows(quirks):
    shows = {node.name: node.group for node in quirks.nodes.values()}
    assert shows["WAITING"] == "INIT"
    assert shows["RESTING"] == "INIT or HEALTHY"


def test_without_any_leaves_out_what_only_that_leads_to(diagram, name):
    quiet = diagram.without_any()
    assert not any(edge.from_any for edge in quiet.edges.values())
    gone = set(diagram.nodes) - set(quiet.nodes)
    expected = {"STOPPING", "STOPPED", "ABORTING"}
    assert gone == (set() if name == "quirks" else expected)
    sources = {source for edge in quiet.edges.values() for source in edge.sources}
    assert sources <= set(quiet.nodes)


@pytest.mark.parametrize("form", ["xstate", "scxml", "transitions"])
def test_exports_are_whole_even_without_any(form, quirks):
    assert Drawing(quirks, with_any=False).render(form) == Drawing(quirks).render(form)


def test_exports_can_be_parsed(diagram):
    json.loads(Drawing(diagram).render("xstate"))
    json.loads(Drawing(diagram).render("transitions"))
    root = ElementTree.fromstring(Drawing(diagram).render("scxml"))
    ids = {element.get("id") for element in root.iter() if element.tag.endswith(("state", "final"))}
    assert ids >= set(diagram.nodes)


@pytest.mark.slow
@pytest.mark.skipif(find_program() is None, reason="no program that draws")
def test_the_dot_text_is_drawn(diagram):
    command = [*find_program(), "-Tplain"]
    text = Drawing(diagram).render("dot")
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    nodes = {line.split()[1].strip('"') for line in run.stdout.splitlines() if line[:4] == "node"}
    assert nodes == {*diagram.nodes, "*", "any"}

"""What is put over a diagram: a run, and the difference of two machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from elastic_fsm.graph.difference import compare
from elastic_fsm.graph.dot import to_dot
from elastic_fsm.graph.model import Call, Look
from elastic_fsm.graph.run_layer import layer_of_run
from elastic_fsm.journal_reader import JournalFile
from elastic_fsm.tally import Tally


def changed(diagram, **edges):
    """The diagram with fields of some edges replaced."""
    new = {name: replace(diagram.edges[name], **values) for name, values in edges.items()}
    return replace(diagram, name="new", edges={**diagram.edges, **new})


def test_sentences_are_no_difference(quirks):
    new = changed(quirks, resume={"doc": "Something else."})
    found = compare(quirks, new)
    assert found.text.endswith("  no difference\n")
    assert not found.layer.nodes
    assert not found.layer.arrows


def test_a_changed_state(quirks):
    nodes = {**quirks.nodes, "RESTING": replace(quirks.nodes["RESTING"], ignores=())}
    found = compare(quirks, replace(quirks, nodes=nodes))
    assert "~ state RESTING: ignores: [worker_exited] -> []\n" in found.text
    assert found.layer.nodes["RESTING"].note == "changed"
    assert "green is added or changed" in found.layer.title


def test_a_changed_condition_is_drawn_before_and_after(quirks):
    new = changed(quirks, done={"conditions": (Call("worker_failed", None, "worker_failed"),)})
    found = compare(quirks, new)
    assert found.text.splitlines()[1:] == [
        "- transition done: WORKING on worker_exited [all_succeeded] -> end",
        "+ transition done: WORKING on worker_exited [worker_failed] -> end",
    ]
    looks = {key: mark.look for key, mark in found.layer.arrows.items()}
    assert looks == {
        ("done", "WORKING"): Look.ADDED,
        ("done (before)", "WORKING"): Look.REMOVED,
    }
    label, line = [x for x in to_dot(found.both, found.layer).splitlines() if "-> end" in x]
    assert label.count("worker_exited") == 2
    assert "dashed" not in line  # neither wholly new nor wholly gone


def test_a_source_more_and_one_less(quirks):
    new = changed(quirks, pause={"sources": ("WORKING", "RESTING")})
    looks = {key: mark.look for key, mark in compare(quirks, new).layer.arrows.items()}
    assert looks == {
        ("pause", "RESTING"): Look.ADDED,
        ("pause (before)", "WAITING"): Look.REMOVED,
    }


def test_no_longer_from_any(quirks):
    new = changed(quirks, crash={"from_any": False, "sources": ("WAITING",), "others": ()})
    looks = {key: mark.look for key, mark in compare(quirks, new).layer.arrows.items()}
    assert looks == {("crash", "WAITING"): Look.ADDED, ("crash (before)", "any"): Look.REMOVED}


@pytest.fixture
def journal():
    """One whose first lines have been dropped: only their sums are left."""
    tally = Tally(
        seq=9,
        state="WORKING",
        now=130.0,
        entered_at=100.0,
        transitions={"pause": 3, "resume": 1},
        seconds={"RESTING": 4000.0},
    )
    step = {"outcome": "step", "transition": "resume", "source": "RESTING", "dest": "WORKING"}
    return JournalFile(Path("j"), {"run_id": "r", "host": "h"}, [step], summary=tally)


def test_counts_of_dropped_lines_stand_at_all_arrows_that_may_have_been_taken(quirks, journal):
    """Those of the transition, from where the run has been: in WAITING it was not."""
    layer = layer_of_run(quirks, journal)
    notes = {key: mark.note for key, mark in layer.arrows.items()}
    assert notes == {
        ("pause", "WORKING"): "×3 in all",
        ("resume", "RESTING"): "×1, last",
    }


def test_of_dropped_lines_any_state_means_those_where_the_run_has_been(quirks, journal):
    journal.summary.transitions["crash"] = 1
    assert layer_of_run(quirks, journal).arrows["crash", "any"].note == "×1 in all"
    journal.summary.seconds.clear()
    named = replace(quirks.edges["crash"], others=("RESTING",))
    quirks = replace(quirks, edges={**quirks.edges, "crash": named})
    assert ("crash", "any") not in layer_of_run(quirks, journal).arrows


def test_times_in_words(quirks, journal):
    layer = layer_of_run(quirks, journal)
    assert layer.nodes["RESTING"].note == "1:06:40 h"
    assert layer.nodes["WORKING"].note == "30 s"
    assert layer.nodes["WORKING"].look is Look.CURRENT
    assert layer.title == "run r on h: in WORKING after 9 lines of its journal"


def test_a_run_of_a_machine_that_has_changed_since(quirks, journal):
    """A transition that the diagram does not have marks nothing that it has."""
    gone = replace(quirks, edges={n: e for n, e in quirks.edges.items() if n != "resume"})
    layer = layer_of_run(gone, journal)
    assert to_dot(gone, layer).count("last") == 0

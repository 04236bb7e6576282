"""What the static checks say of bad machines, and that they say nothing of good ones.

Each file in ``bad_machines/`` begins with a comment: all the problems that are found in it, in
order. After a change of the checks, REWRITE=1 writes these anew; keep only what you can explain.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from elastic_fsm import actions, conditions
from elastic_fsm.machine import load_machine
from elastic_fsm.problems import BadInput
from elastic_fsm.registry import Registry
from elastic_fsm.testing import settings_for

BAD = sorted((Path(__file__).parent / "bad_machines").glob("*.yaml"))
SHIPPED = ("elastic", "fail_fast")


def problems_of(text: str) -> list[str]:
    registry = Registry([conditions, actions])
    try:
        load_machine(yaml.safe_load(text), registry, settings_for("elastic"))
    except BadInput as error:
        return "\n".join(map(str, error.problems)).splitlines()
    return []


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_problem_is_found_and_nothing_else(path):
    lines = path.read_text().splitlines()
    body = "\n".join(line for line in lines if not line.startswith("#"))
    header = [line.removeprefix("# ") for line in lines if line.startswith("#")]
    found = problems_of(body)
    if os.environ.get("REWRITE"):
        path.write_text("".join(f"# {line}\n" for line in found) + body + "\n")
        header = found
    assert found == header
    assert found


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_machines_have_no_problems(name):
    settings = settings_for(name)
    machine = load_machine(settings["machine"], Registry([conditions, actions]), settings)
    spec = machine.spec
    described = [spec, *spec.states.values(), *spec.transitions.values()]
    assert all(entry.doc.endswith(".") for entry in described)


def test_mistakes_made_at_once_are_told_at_once():
    """What the files above show one by one holds for several in one file, without an echo."""
    path = Path(__file__).parent / "bad_machines" / "five_mistakes.yaml"
    heads = [line for line in path.read_text().splitlines() if line.startswith("# machine.")]
    assert len(heads) == 5

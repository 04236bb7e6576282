"""The machines that the tests of graphs are about: the shipped ones, and an odd one."""

from __future__ import annotations

from pathlib import Path

import yaml

from elastic_fsm.reading import read_machine
from elastic_fsm.testing import settings_for

__all__ = ["HERE", "MACHINES", "TUTORIAL", "spec_of"]

HERE = Path(__file__).parent
MACHINES = ["elastic", "fail_fast", "quirks"]
TUTORIAL = HERE.parent.parent / "docs" / "own_machine.md"


def spec_of(name):
    if name == "quirks":
        data = yaml.safe_load((HERE / "quirks.yaml").read_text())
    elif name == "drain":
        text = TUTORIAL.read_text().partition("# file: drain.yaml\n")[2].partition("```")[0]
        data = settings_for("elastic", **yaml.safe_load(text))["machine"]
    else:
        data = settings_for(name)["machine"]
    spec, problems = read_machine(data)
    assert problems == []
    return spec

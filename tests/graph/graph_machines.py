"""The machines that the tests of graphs are about: the shipped ones, and an odd one."""

from __future__ import annotations

from pathlib import Path

import yaml

from elastic_fsm.reading import read_machine
from elastic_fsm.testing import settings_for

__all__ = ["HERE", "MACHINES", "spec_of"]

HERE = Path(__file__).parent
MACHINES = ["elastic", "fail_fast", "quirks"]


def spec_of(name):
    if name == "quirks":
        data = yaml.safe_load((HERE / "quirks.yaml").read_text())
    else:
        data = settings_for(name)["machine"]
    spec, problems = read_machine(data)
    assert problems == []
    return spec

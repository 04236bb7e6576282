"""What the tests of graphs share: machines, and the stories of the core's tests."""

from __future__ import annotations

import sys

import pytest
from graph_machines import HERE, MACHINES, spec_of

from elastic_fsm.graph.extract import diagram_of

# The stories are those of the core's tests, whose folder pytest may not have come to yet.
sys.path.append(str(HERE.parent / "core"))


@pytest.fixture(params=MACHINES)
def name(request):
    return request.param


@pytest.fixture
def spec(name):
    return spec_of(name)


@pytest.fixture
def diagram(spec, name):
    return diagram_of(spec, name)


@pytest.fixture
def quirks():
    return diagram_of(spec_of("quirks"), "quirks")

"""What the tests of the core share."""

from __future__ import annotations

from types import ModuleType

import pytest

from elastic_fsm import actions, conditions
from elastic_fsm.machine import load_machine
from elastic_fsm.registry import Registry

NOTICES = ["worker_exited", "membership_changed", "signal_received", "action_failed"]


@pytest.fixture
def module_of():
    """A module with these functions in it, as a user's plugin would be."""

    def make(*functions, name: str = "rules") -> ModuleType:
        module = ModuleType(name)
        for number, function in enumerate(functions):
            setattr(module, f"rule_{number}", function)
        return module

    return make


@pytest.fixture
def machine_of(module_of):
    """A machine from states and transitions; states say nothing about notices, so nor do tests."""

    def make(states, transitions, *rules, initial="A", settings=None):
        quiet = {n: {"ignores": [*NOTICES]} | (s or {}) for n, s in states.items()}
        data = {"initial": initial, "states": quiet, "transitions": transitions}
        registry = Registry([conditions, actions, module_of(*rules)])
        return load_machine(data, registry, settings or {})

    return make

"""What the package has of launchers, rendezvous and stores keeps the public contracts."""

from __future__ import annotations

import pytest
from contract_subjects import (
    InMemory,
    Scripted,
    ScriptedAlone,
    ScriptedAmongOthers,
    StandaloneAlone,
    Subprocesses,
)

from elastic_fsm.rendezvous.memory import Memory, MemoryStore
from elastic_fsm.rendezvous.standalone import Standalone


@pytest.mark.slow
class TestSubprocesses(Subprocesses):
    pass


class TestScriptedLauncher(Scripted):
    pass


class TestStandalone(StandaloneAlone):
    pass


class TestScriptedRendezvous(ScriptedAlone):
    pass


class TestScriptedRendezvousAmongOthers(ScriptedAmongOthers):
    pass


class TestMemoryStore(InMemory):
    pass


def test_a_standalone_rendezvous_that_fails_says_why():
    class WithoutPorts(StandaloneAlone):
        def make_rendezvous(self, loop):
            def none(address):
                raise OSError("all are taken")

            return Standalone(loop, find_port=none)

    suite = WithoutPorts()
    suite.setup_method()
    suite.test_joining_is_answered_once()
    suite.test_a_failure_has_a_reason()
    assert "all are taken" in suite.join().data["reason"]
    suite.teardown_method()


def test_changes_that_a_memory_has_forgotten_are_a_lost_watch():
    """As in a store whose past was compacted: read again, and watch from there."""
    suite = InMemory()
    suite.setup_method()
    memory = Memory(suite.loop, remembered=2)
    suite.store = suite.other = MemoryStore(memory)
    last = 0
    for value in "abc":
        last = suite.write("/k", value, last)
    seen, _ = suite.watched("/", 0)
    suite.wait_for(lambda: seen.errors)
    assert "up to 1 have been forgotten" in str(seen.errors[0])
    assert seen.changes == []
    again, _ = suite.watched("/", 1)
    suite.wait_for(lambda: len(again.changes) == 2)
    suite.teardown_method()

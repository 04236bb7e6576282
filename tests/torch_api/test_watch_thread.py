"""The thread that looks after the workers of a loop of a subclass's own: how it begins and ends."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from elastic_fsm.group import WorkerGroup, WorkerSpec
from elastic_fsm.logs.specs import DefaultLogsSpecs
from elastic_fsm.server import watch_thread
from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.server.watch_thread import WatchThread

pytestmark = pytest.mark.timeout(10)  # a mistake here is a thread that waits for ever


@pytest.fixture
def watch():
    group = WorkerGroup(WorkerSpec("trainer", 1, entrypoint="train"))
    owner = SimpleNamespace(_worker_group=group, _uninterruptible_state_timeout=60.0)
    made = WatchThread(owner)
    yield made
    made.stop()
    assert "watchdogs" not in [thread.name for thread in threading.enumerate()]


class Dog:
    """It cannot be started."""

    def start(self):
        raise LookupError("lost")

    def close(self):
        self.is_closed = True


def fail(*_, **__):
    raise OSError("too many open files")


@pytest.mark.parametrize("part", ["Loop", "watchdogs"])
def test_what_cannot_be_opened_is_raised_where_it_was_asked_for(watch, monkeypatch, part):
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(watch_thread, part, fail)
    with pytest.raises(OSError, match="too many open files"):
        watch.start()
    assert os.listdir("/proc/self/fd") == before


def test_any_exception_of_a_start_is_raised_and_what_was_open_is_closed(watch, monkeypatch):
    dog = Dog()
    monkeypatch.setattr(watch_thread, "watchdogs", lambda *_, **__: [dog])
    with pytest.raises(LookupError):
        watch.start()
    assert dog.is_closed


def test_one_that_was_stopped_before_it_began_opens_nothing(watch, monkeypatch):
    """A stop signal came in the middle of ``start``."""
    opened = []
    monkeypatch.setattr(watch_thread, "Loop", opened.append)
    watch.stop()
    watch._thread.start()
    watch._thread.join()
    assert opened == []


def test_it_may_be_stopped_twice(watch):
    watch.start()
    watch.stop()
    watch.stop()


def test_one_that_was_interrupted_while_it_began_is_known_to_its_agent(monkeypatch):
    """A stop signal raises anywhere; whoever cleans up must find the thread."""
    agent = LocalElasticAgent(
        WorkerSpec("trainer", 1, entrypoint="/bin/true"),
        DefaultLogsSpecs(os.devnull),
        uninterruptible_state_timeout=60,
    )
    start = WatchThread.start

    def interrupted(self):
        start(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(WatchThread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent._setup_local_watchdog({})
    agent._shutdown()
    assert "watchdogs" not in [thread.name for thread in threading.enumerate()]

"""For all tests: scenes with real processes; and whatever is played or run, its journal must
agree with its machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "process"))

from journal_checks import check_all_below, check_played
from process_harness import Scene

from elastic_fsm.testing import Scenario


def pytest_addoption(parser):
    parser.addoption("--share", default="1/1", help="2/3: the second of each three tests only")


@pytest.hookimpl(trylast=True)  # the marks have chosen theirs
def pytest_collection_modifyitems(config, items):
    """So that several interpreters, or processes, can share the tests."""
    part, parts = map(int, config.getoption("--share").split("/"))
    turns = {key: turn for turn, key in enumerate(dict.fromkeys(map(_share_of, items)))}
    mine = {item: turns[_share_of(item)] % parts == part - 1 for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not mine[item]])
    items[:] = [item for item in items if mine[item]]


def _share_of(item):
    """What goes to one of them only: a test, or a module whose tests stand on one long run."""
    return item.path if item.get_closest_marker("one_share") else item.nodeid


@pytest.fixture(scope="session", autouse=True)
def _signals_have_their_usual_effect():
    """Also in a run in the background, for which the shell ignores SIGINT, or under nohup."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _scenarios_can_be_replayed():
    """After each scenario its records are replayed; see ``journal_checks``."""
    prepare, play = Scenario._prepare, Scenario.play

    def prepare_and_remember(self, settings, registry, **options):
        self.rules_of_the_test = registry
        prepare(self, settings, registry, **options)

    def play_and_replay(self):
        result = play(self)
        check_played(self, self.rules_of_the_test)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scenario, "_prepare", prepare_and_remember)
        patch.setattr(Scenario, "play", play_and_replay)
        yield


@pytest.fixture(autouse=True)
def _real_runs_can_be_replayed(request):
    """The same for the journals of real agents, where a test has a ``scene`` for them."""
    if "scene" not in request.fixturenames:
        yield
        return
    scene = request.getfixturevalue("scene")
    yield
    check_all_below(scene.folder)


@pytest.fixture
def scene(tmp_path):
    """A folder in which agents can be started; at the end nothing of theirs may be left."""
    folder = tmp_path / "here"
    folder.mkdir()
    scene = Scene(folder)
    yield scene
    left = scene.close()
    assert not left, f"left behind: {left}"

"""What failed workers may have caught: the signals that they, or the others, had handlers for."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from elastic_fsm.launchers import handlers
from elastic_fsm.launchers.handlers import caught_signals
from elastic_fsm.launchers.running import Running


def masks(caught=(), ignored=(), blocked=()):
    def mask(names):
        return sum(1 << signal.Signals[name] - 1 for name in names)

    return {"SigCgt": mask(caught), "SigIgn": mask(ignored), "SigBlk": mask(blocked)}


SHELL = masks()
TRAP = masks(["SIGTERM", "SIGCHLD"])
WAITS = masks(blocked=["SIGTERM"])
PYTHON_ENDED = masks(ignored=["SIGPIPE", "SIGXFSZ"])
PYTHON_OF_A_PIPE = masks(ignored=["SIGXFSZ"])
PYTHON_FELL = masks(["SIGINT"], ["SIGPIPE", "SIGXFSZ"])
PYTHON_DEAF = masks(["SIGINT", "SIGTERM"], ["SIGPIPE", "SIGXFSZ"])
GONE: dict[str, int] = {}


@pytest.fixture
def workers_with(monkeypatch):
    """Workers that have ended: masks and exit codes of failed ones, then of those stopped."""

    def make(failed, stopped):
        of_pid = dict(enumerate([*failed, *stopped]))
        shown = {pid: masks for pid, (masks, _) in of_pid.items()}
        monkeypatch.setattr(handlers, "signal_masks", shown.get)
        workers = []
        for pid, (_, code) in of_pid.items():
            worker = Running(SimpleNamespace(), SimpleNamespace(pid=pid))
            worker.stopped_by_agent = pid >= len(failed)
            worker.exit_code = code
            workers.append(worker)
        return workers

    return make


@pytest.mark.parametrize(
    ("failed", "stopped", "caught"),
    [
        ([], [PYTHON_ENDED], []),
        ([SHELL], [], []),
        ([SHELL], [TRAP], []),
        ([TRAP], [SHELL], ["SIGCHLD", "SIGTERM"]),
        ([WAITS], [], ["SIGTERM"]),
        ([PYTHON_ENDED], [], None),
        ([PYTHON_OF_A_PIPE], [], None),
        ([PYTHON_ENDED, PYTHON_ENDED], [], None),
        ([PYTHON_ENDED], [PYTHON_FELL, PYTHON_FELL], ["SIGINT"]),
        ([PYTHON_ENDED], [PYTHON_FELL, PYTHON_ENDED], None),
        ([PYTHON_ENDED], [PYTHON_FELL, PYTHON_DEAF], ["SIGINT", "SIGTERM"]),
        ([PYTHON_FELL], [PYTHON_ENDED], ["SIGINT"]),
        ([GONE], [], None),
        ([GONE], [GONE], None),
    ],
)
def test_what_was_caught(workers_with, failed, stopped, caught):
    """Python takes its handlers back before it ends; who fell in its work still shows them."""
    workers = workers_with([(each, 1) for each in failed], [(each, -15) for each in stopped])
    assert caught_signals(workers) == caught


def test_a_death_by_a_signal_says_what_it_was(workers_with):
    assert caught_signals(workers_with([(TRAP, -signal.SIGSEGV)], [])) == []

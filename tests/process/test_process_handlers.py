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
def test_what_was_caught(monkeypatch, failed, stopped, caught):
    """Python takes its handlers back before it ends; who fell in its work still shows them."""
    of_pid = dict(enumerate([*failed, *stopped]))
    monkeypatch.setattr(handlers, "signal_masks", of_pid.get)
    workers = []
    for pid in of_pid:
        worker = Running(SimpleNamespace(), SimpleNamespace(pid=pid))
        worker.stopped_by_agent = pid >= len(failed)
        worker.exit_code = -signal.SIGTERM if worker.stopped_by_agent else 1
        workers.append(worker)
    assert caught_signals(workers) == caught


def test_a_death_by_a_signal_says_what_it_was(monkeypatch):
    monkeypatch.setattr(handlers, "signal_masks", {1: TRAP}.get)
    worker = Running(SimpleNamespace(), SimpleNamespace(pid=1))
    worker.exit_code = -signal.SIGSEGV
    assert caught_signals([worker]) == []

"""Workers with timers, for the tests of those; each ends with the number of its attempt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from elastic_fsm.timer import FileTimerClient, expires

LONG = 600
SHORT = 0.05


def _attempt():
    return int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def _is_to_overrun():
    """One rank, and only in the first attempt."""
    return os.environ["RANK"] == "1" and _attempt() == 0


def overruns_once():
    if _is_to_overrun():
        with expires(after=LONG, scope="epoch"), expires(after=SHORT, scope="step"):
            signal.pause()
    return _attempt()


def comes_back_in_time():
    for _ in range(100):
        with expires(after=LONG, scope="step"):
            pass
    with expires(after=LONG, scope="outer"), expires(after=LONG, scope="inner"):
        pass
    return _attempt()


def leaves_inner_and_overruns_outer():
    if _is_to_overrun():
        with expires(after=0.5, scope="outer"):
            with expires(after=LONG, scope="inner"):
                pass
            signal.pause()
    return _attempt()


def its_child_overruns():
    if _is_to_overrun():
        subprocess.run([sys.executable, "-c", _CHILD], check=True)
    return _attempt()


_CHILD = """
import signal
from elastic_fsm.timer import expires
with expires(after=0.01, scope="data"):
    signal.pause()
"""


def ends_by_sigterm():
    client = FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"], signal.SIGTERM)
    if _is_to_overrun():
        with expires(after=SHORT, scope="step", client=client):
            signal.pause()
    return _attempt()


def writes_garbage():
    with open(os.environ["TORCHELASTIC_TIMER_FILE"], "wb", buffering=0) as pipe:
        pipe.write(b"hello\n{}\n")
    return overruns_once()


def has_no_timers():
    with expires(after=1):
        pass


def tells_where():
    return os.environ.get("TORCHELASTIC_TIMER_FILE")

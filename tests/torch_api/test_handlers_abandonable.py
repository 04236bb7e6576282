"""A call that waits in C is left at once when a signal's handler raises."""

from __future__ import annotations

import signal
import threading
import traceback

import pytest

from elastic_fsm.failures import SignalException
from elastic_fsm.rendezvous.abandonable import call_abandonable


def test_what_is_returned_comes_back():
    assert call_abandonable(divmod, 7, 2) == (3, 1)
    assert call_abandonable(sorted, [1, 2], reverse=True) == [2, 1]
    assert call_abandonable(threading.current_thread) is not threading.current_thread()


def fail():
    raise LookupError("nothing there")


def test_what_is_raised_comes_back_with_its_traceback():
    with pytest.raises(LookupError, match="nothing there") as caught:
        call_abandonable(fail)
    assert "fail" in [frame.name for frame in traceback.extract_tb(caught.tb)]
    with pytest.raises(SystemExit):
        call_abandonable(exit_with, 3)


def exit_with(code):
    raise SystemExit(code)


def test_a_signal_ends_the_wait():
    """The function cannot end before the test lets it: only the signal ends the call."""
    begun, ended = threading.Event(), threading.Event()

    def wait_in_c():
        begun.set()
        ended.wait()

    def interrupt():
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def handle(number, _):
        raise SignalException("told to stop", signal.Signals(number))

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(SignalException, match="told to stop"):
            call_abandonable(wait_in_c)
        assert not ended.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)
        ended.set()


def test_the_call_does_not_keep_the_process():
    assert call_abandonable(lambda: threading.current_thread().daemon)

"""Error files from both sides: what a worker writes, what the agent reads."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from elastic_fsm.failures import (
    ChildFailedError,
    ProcessFailure,
    describe_exit,
    shell_code,
    signal_name,
)
from elastic_fsm.worker import ErrorHandler, record

# -- exit codes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "name", "shell", "text"),
    [
        (0, "", 0, "exited with 0"),
        (3, "", 3, "exited with 3"),
        (-9, "SIGKILL", 137, "was ended by SIGKILL (-9)"),
        (-signal.SIGRTMIN - 1, f"signal {signal.SIGRTMIN + 1}", 163,
         f"was ended by signal {signal.SIGRTMIN + 1} ({-signal.SIGRTMIN - 1})"),
    ],
)  # fmt: skip
def test_exit_codes_in_words(code, name, shell, text):
    assert (signal_name(code), shell_code(code), describe_exit(code)) == (name, shell, text)


# -- reading -----------------------------------------------------------------------------------


@pytest.fixture
def failure(tmp_path):
    def make(content, **fields):
        path = tmp_path / "error.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return ProcessFailure(0, 42, 1, error_file=str(path), **{"timestamp": 5.0, **fields})

    return make


def torch_file(message="ValueError: bad", **extra):
    return {"message": {"message": message, "extraInfo": extra}}


@pytest.mark.parametrize(
    ("content", "message", "callstack"),
    [
        (torch_file(timestamp="17", py_callstack="Traceback …"), "ValueError: bad", "Traceback …"),
        ({**torch_file(), "errorCode": 3}, "ValueError: bad", ""),
        ({"message": {"message": "m", "extraInfo": None}}, "m", ""),
        ({"message": {"extraInfo": {"timestamp": 7}}}, "", ""),
        ({"message": "plain", "timestamp": "8"}, "plain", ""),
        ({"message": None}, "None", ""),
        ({"other": 1}, "", ""),
        ({}, "", ""),
        (["a", "list"], "['a', 'list']", ""),
        ("text", "text", ""),
        (b"", "", ""),
        (b'{"message": {"mess', "", ""),
        (b"\xff\xfe\x00", "", ""),
    ],
    ids=str,
)
def test_what_an_error_file_says(failure, content, message, callstack):
    found = failure(content)
    assert (found.message, found.traceback, found.timestamp) == (message, callstack, 5.0)


def test_a_failure_is_as_old_as_its_error_file(failure):
    """A worker that raised takes a while to end, and a peer that notices may end before it."""
    found = failure(torch_file(timestamp="17"))
    os.utime(found.error_file, (3.25, 3.25))
    again = ProcessFailure(0, 42, 1, error_file=found.error_file, timestamp=5.0)
    assert again.timestamp == 3.25


def test_without_an_error_file_there_is_the_reason_and_the_time_of_the_exit(tmp_path):
    absent = ProcessFailure(
        0, 42, -11, error_file=str(tmp_path / "no"), timestamp=5.0, reason="cannot be started"
    )
    assert absent.error_file_data == {}
    assert (absent.message, absent.timestamp, absent.signal_name()) == (
        "cannot be started", 5.0, "SIGSEGV",
    )  # fmt: skip
    assert ProcessFailure(0, 42, 1).timestamp > 1_600_000_000


def test_a_message_that_was_given_stays(failure):
    assert failure(torch_file(), message="mine").message == "mine"


def test_the_first_failure_is_the_earliest(failure):
    failures = {
        2: failure(torch_file("late"), timestamp=20.0),
        1: failure(torch_file("early"), timestamp=10.0),
        0: ProcessFailure(0, 7, -9, timestamp=15.0),
    }
    error = ChildFailedError("train.py", failures)
    assert error.get_first_failure() == (1, failures[1])
    report = str(error)
    assert report.index("Root cause") < report.index("early") < report.index("Other failure 1 of 2")
    assert "rank      : 1 (local rank 0)" in report
    assert "end       : (pid 7) was ended by SIGKILL (-9)" in report
    assert f"time      : {failures[1].timestamp_isoformat()}" in report
    assert "Other" not in str(ChildFailedError("t", {0: failures[0]}))
    tie = {3: ProcessFailure(0, 1, 1, timestamp=1.0), 1: ProcessFailure(0, 2, 1, timestamp=1.0)}
    assert ChildFailedError("t", tie).get_first_failure()[0] == 3


def test_no_error_without_a_failure():
    with pytest.raises(ValueError, match="at least one failure"):
        ChildFailedError("t", {})


# -- writing -----------------------------------------------------------------------------------


@pytest.fixture
def error_file(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    return path


@record
def divide(a, b=0):
    """Divide."""
    return a / b


def test_an_exception_is_written_in_torchs_form_and_passes(error_file):
    with pytest.raises(ZeroDivisionError):
        divide(1)
    written = json.loads(error_file.read_text())
    extra = written["message"]["extraInfo"]
    assert written == {
        "message": {
            "message": "ZeroDivisionError: division by zero",
            "extraInfo": {"py_callstack": extra["py_callstack"], "timestamp": extra["timestamp"]},
        }
    }
    assert extra["py_callstack"].startswith("Traceback (most recent call last)")
    assert "in divide" in extra["py_callstack"]
    assert float(extra["timestamp"]) > 1_600_000_000
    assert [path.name for path in error_file.parent.iterdir()] == ["error.json"]
    found = ProcessFailure(0, 1, 1, error_file=str(error_file))
    assert found.message == "ZeroDivisionError: division by zero"


def test_a_recorded_function_is_as_it_was(error_file):
    assert divide(4, b=2) == 2
    assert (divide.__name__, divide.__doc__) == ("divide", "Divide.")
    assert not error_file.exists()


@pytest.mark.parametrize(("code", "passes"), [(0, False), (None, False), (3, True), ("x", True)])
def test_leaving_with_0_is_an_end_like_any_other(error_file, code, passes):
    leave = record(lambda: sys.exit(code))
    if passes:
        with pytest.raises(SystemExit) as caught:
            leave()
        assert caught.value.code == code
    else:
        assert leave() is None
    assert not error_file.exists()


@pytest.mark.parametrize("path", [None, "", "/no/such/folder/error.json", "/dev/full/x"])
def test_where_nothing_can_be_written_the_error_is_the_same(monkeypatch, path):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    if path is not None:
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", path)
    with pytest.raises(ZeroDivisionError):
        divide(1)


def test_without_standard_error_too(error_file, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(ZeroDivisionError):
        divide(1)
    assert error_file.exists()


def test_an_interrupt_is_no_error_of_the_program(error_file):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(interrupted)()
    assert not error_file.exists()


# -- an agent's own error file: that of the child it fell over -----------------------------------


def child_failed(path, *, exitcode=3):
    failure = ProcessFailure(0, 7, exitcode, error_file=str(path), timestamp=1.0)
    return ChildFailedError("train.py", {0: failure})


def raises(error):
    def run():
        raise error

    return run


def test_of_failed_children_the_first_ones_file_is_copied_with_its_exit_code(error_file, tmp_path):
    child = tmp_path / "child.json"
    child.write_text(json.dumps(torch_file("ValueError: bad", timestamp="17")))
    with pytest.raises(ChildFailedError):
        record(raises(child_failed(child)))()
    expected = torch_file("ValueError: bad", timestamp="17")
    expected["message"]["errorCode"] = 3
    assert json.loads(error_file.read_text()) == expected


@pytest.mark.parametrize("text", [None, "{torn"])
def test_without_a_childs_file_the_report_is_what_is_written(error_file, tmp_path, text):
    child = tmp_path / "child.json"
    if text is not None:
        child.write_text(text)
    with pytest.raises(ChildFailedError):
        record(raises(child_failed(child)))()
    written = error_file.read_text()
    assert ("train.py FAILED" if text is None else "child.json cannot be read") in written


def test_a_plain_message_has_no_room_for_the_exit_code(error_file, tmp_path):
    child = tmp_path / "child.json"
    child.write_text('{"message": "out of luck", "timestamp": 17}')
    with pytest.raises(ChildFailedError):
        record(raises(child_failed(child)))()
    assert json.loads(error_file.read_text()) == {"message": "out of luck", "timestamp": 17}


def test_an_error_handler_of_the_users_own(tmp_path):
    class Elsewhere(ErrorHandler):
        told = None

        def _get_error_file_path(self):
            return str(tmp_path / "mine.json")

        def record_exception(self, e):
            self.told = e
            super().record_exception(e)

    handler = Elsewhere()
    error = LookupError("lost")
    with pytest.raises(LookupError):
        record(error_handler=handler)(raises(error))()
    assert handler.told is error
    message = json.loads((tmp_path / "mine.json").read_text())["message"]["message"]
    assert message == "LookupError: lost"

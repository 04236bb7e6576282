"""The folder of a run: nothing is overwritten, and odd file systems do not stop a run."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from elastic_fsm.config import compose
from elastic_fsm.launch import execute
from elastic_fsm.launchers.procfs import children_of
from elastic_fsm.logs.console import Console
from elastic_fsm.preparing import prepare
from elastic_fsm.problems import BadInput
from elastic_fsm.rundir import node_name, open_run_dir


def test_two_at_once_are_refused(tmp_path):
    first = open_run_dir(tmp_path, "run", "node")
    with pytest.raises(BadInput, match=f"pid {os.getpid()}"):
        open_run_dir(tmp_path, "run", "node")
    open_run_dir(tmp_path, "run", "another node").release()
    open_run_dir(tmp_path, "another run", "node").release()
    first.release()
    open_run_dir(tmp_path, "run", "node").release()


def test_an_agent_that_was_killed_early_loses_nothing(tmp_path):
    """It had written one file, but not the others; so had the one before."""
    for number in range(3):
        folder = open_run_dir(tmp_path, "run", "node")
        folder.config.write_text(f"run {number}")
        folder.release()
    folder = open_run_dir(tmp_path, "run", "node")
    assert [(folder.node / f"run.{n}.yaml").read_text() for n in range(3)] == [
        f"run {n}" for n in range(3)
    ]
    folder.release()


def test_attempts_go_on_after_the_highest(tmp_path):
    folder = open_run_dir(tmp_path, "run", "node")
    assert folder.first_attempt == 0
    for name in ("attempt_2", "attempt_10", "attempt_x"):
        (folder.node / name).mkdir()
    folder.release()
    folder = open_run_dir(tmp_path, "run", "node")
    assert folder.first_attempt == 11
    folder.release()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks(tmp_path, monkeypatch, number):
    def no_locks(descriptor, command, argument):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "fcntl", no_locks)
    open_run_dir(tmp_path, "run", "node").release()


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def no_links(*args, **kwargs):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", no_links)
    folder = open_run_dir(tmp_path, "run", "node")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    folder.release()


def test_something_of_the_users_called_latest_stays(tmp_path):
    (tmp_path / "latest").mkdir()
    open_run_dir(tmp_path, "run", "node").release()
    assert not (tmp_path / "latest").is_symlink()


@pytest.fixture
def refused(tmp_path):
    """What becomes of a run with these words that cannot begin: the error that it ends with."""

    def run(*words: str) -> Exception:
        prepared = prepare(compose([f"run_dir={tmp_path / 'runs'}", *words]), ["true"])
        with pytest.raises((BadInput, OSError)) as caught:
            execute(prepared, sole_owner=False)
        return caught.value

    return run


def test_without_its_guardian_a_run_leaves_no_folder(refused, tmp_path, monkeypatch):
    def no_more(*args, **kwargs):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", no_more)
    assert "guardian" in str(refused())
    assert not (tmp_path / "runs").exists()


def test_without_its_console_a_run_leaves_no_folder(refused, tmp_path, monkeypatch):
    def no_more(console):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Console, "start", no_more)
    said = "the thread that writes to the console cannot be started: can't start new thread"
    assert said in str(refused())
    assert not (tmp_path / "runs").exists()


def test_without_its_folder_a_run_leaves_no_process_and_no_handler(refused, tmp_path):
    before = children_of(os.getpid()), signal.getsignal(signal.SIGTERM)
    (tmp_path / "runs").write_text("")
    assert "run directory cannot be written" in str(refused())
    assert (children_of(os.getpid()), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_agent_of_a_host_makes_files_in_its_own_folder_only(tmp_path):
    first = open_run_dir(tmp_path, "run", node_name())
    words = [f"run_dir={tmp_path}", "run_id=run", "logs=files"]
    execute(prepare(compose(words), ["true"]), sole_owner=False, shares_run_id=True)
    first.release()
    assert [path.name for path in first.node.iterdir()] == ["agent.pid"]
    assert (tmp_path / "run" / f"{node_name()}.2" / "attempt_0" / "0" / "stdout.log").exists()

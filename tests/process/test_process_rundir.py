"""The folder of a run: nothing is overwritten, and odd file systems do not stop a run."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from elastic_fsm.problems import BadInput
from elastic_fsm.rundir import open_run_dir


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

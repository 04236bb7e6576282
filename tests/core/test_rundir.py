"""The folder of a run: nothing in it is ever lost, and one agent has it at a time."""

from __future__ import annotations

import errno
import os
import re

import pytest

from elastic_fsm import rundir
from elastic_fsm.problems import BadInput
from elastic_fsm.rundir import new_run_id, node_name, open_run_dir


@pytest.fixture
def opened(tmp_path):
    """Open a run's folder below ``tmp_path / "runs"``; all are released afterwards."""
    folders = []

    def run(run_id="r", node="n", base=tmp_path / "runs"):
        folders.append(open_run_dir(base, run_id, node))
        return folders[-1]

    yield run
    for folder in folders:
        folder.release()


def test_the_folder_of_a_new_run(opened, tmp_path):
    folder = opened()
    assert folder.node == tmp_path / "runs" / "r" / "n"
    assert folder.run == tmp_path / "runs" / "r"
    assert folder.first_attempt == 0
    assert [p.name for p in (folder.journal, folder.report, folder.config)] == [
        "journal.jsonl", "report.json", "run.yaml",
    ]  # fmt: skip
    assert (folder.node / "agent.pid").read_text() == f"{os.getpid()}\n"
    assert (tmp_path / "runs" / "latest").readlink().name == "r"


def test_a_run_id_used_again_goes_on_and_keeps_everything(tmp_path):
    texts = {}
    for run in range(4):
        folder = open_run_dir(tmp_path, "r", "n")
        assert folder.first_attempt == 2 * run
        for attempt in (folder.first_attempt, folder.first_attempt + 1):
            (folder.node / f"attempt_{attempt}").mkdir()
        for path in (folder.journal, folder.report, folder.config):
            if not (run == 1 and path == folder.journal):  # one run could not write its journal
                path.write_text(f"{path.name} of {run}")
                texts[path.name, run] = path.read_text()
        folder.release()
    kept = {path.read_text() for path in folder.node.glob("*.*") if path.name != "agent.pid"}
    assert kept == set(texts.values())
    assert (folder.node / "report.0.json").read_text() == "report.json of 0"


def test_numbers_are_read_as_numbers_and_strangers_left_alone(tmp_path):
    node = tmp_path / "r" / "n"
    for name in ("attempt_9", "attempt_10", "attempt_x", "attempt_old.11"):
        (node / name).mkdir(parents=True)
    (node / "journal.jsonl").write_text("now")
    (node / "journal.notes.jsonl").write_text("mine")
    folder = open_run_dir(tmp_path, "r", "n")
    assert folder.first_attempt == 11
    assert (node / "journal.0.jsonl").read_text() == "now"
    assert (node / "journal.notes.jsonl").read_text() == "mine"
    folder.release()


def test_a_run_in_use_is_refused(opened):
    folder = opened()
    with pytest.raises(BadInput) as caught:
        opened()
    (problem,) = caught.value.problems
    assert problem.path == "run_id"
    assert f"in use by the agent with pid {os.getpid()}" in problem.what
    assert opened(node="other").node != folder.node  # another node of the same run


def test_the_link_moves_with_every_run(opened, tmp_path):
    opened("r1")
    opened("r2")
    assert (tmp_path / "runs" / "latest").resolve() == tmp_path / "runs" / "r2"
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["latest", "r1", "r2"]


def test_a_dangling_link_is_replaced_and_a_folder_is_not(opened, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "latest").symlink_to("gone")
    opened("r1")
    assert (runs / "latest").readlink().name == "r1"
    (runs / "latest").unlink()
    (runs / "latest").mkdir()
    opened("r2")
    assert not (runs / "latest").is_symlink()


def test_a_place_that_cannot_be_written_is_bad_input(opened, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for base in (file, "/proc/no/such"):
        with pytest.raises(BadInput) as caught:
            opened(base=type(tmp_path)(base))
        (problem,) = caught.value.problems
        assert problem.path == "run_dir"
        assert problem.what.startswith("the run directory cannot be written: ")
        assert problem.fix == "choose another place: run_dir=PATH"


def full(folder):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_fails_half_way_gives_the_lock_back(opened, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rundir, "_keep_earlier", full)
        with pytest.raises(BadInput, match=r"No space left on device: .*/runs/r/n"):
            opened()
    assert opened().first_attempt == 0


def begin(folder):
    folder.unfinished_config.write_text("new")
    (folder.node / f"attempt_{folder.first_attempt}").mkdir()


def begin_on_a_full_disk(folder):
    begin(folder)
    full(folder)


def test_first_files_that_do_not_fit_leave_no_folder(tmp_path):
    with pytest.raises(BadInput, match=r"No space left on device: .*/runs/r/n"):
        open_run_dir(tmp_path / "runs", "r", "n", begin_on_a_full_disk)
    assert not list(tmp_path.iterdir())


def test_first_files_that_do_not_fit_leave_an_earlier_run_as_it_was(tmp_path):
    folder = open_run_dir(tmp_path, "r", "n", begin)
    folder.report.write_text("report")
    folder.release()
    open_run_dir(tmp_path, "latest one", "n").release()
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    with pytest.raises(BadInput, match="No space left"):
        open_run_dir(tmp_path, "r", "n", begin_on_a_full_disk)
    assert {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")} == before
    assert (tmp_path / "latest").readlink().name == "latest one"


def test_first_files_that_fit_take_the_place_of_earlier_ones(tmp_path):
    for attempt in range(2):
        folder = open_run_dir(tmp_path, "r", "n", begin)
        assert folder.first_attempt == attempt
        assert folder.config.read_text() == "new"
        folder.release()
    assert (folder.node / "run.0.yaml").exists()
    assert not folder.unfinished_config.exists()


def test_file_systems_without_locks_or_links_are_used_without(opened, monkeypatch, tmp_path):
    def unsupported(*_, **__):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(rundir, "lock", unsupported)
    monkeypatch.setattr(type(tmp_path), "symlink_to", unsupported)
    assert opened().first_attempt == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["r"]


def test_a_lock_that_fails_otherwise_is_told(opened, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(rundir, "lock", broken)
    with pytest.raises(BadInput, match="Input/output error"):
        opened()


def test_names_of_runs_and_nodes():
    first, second = new_run_id(), new_run_id()
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", first)
    assert first != second
    assert node_name()

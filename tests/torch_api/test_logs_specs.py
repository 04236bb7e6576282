"""Where output goes: ``Std``, ``to_map`` and ``DefaultLogsSpecs``, as torch has them."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from elastic_fsm.logs.specs import DefaultLogsSpecs, LogsSpecs, Std, to_map


def test_streams_by_number_and_by_rank():
    assert [Std.from_str(str(n)) for n in range(4)] == [Std.NONE, Std.OUT, Std.ERR, Std.ALL]
    assert Std.from_str("0:3,1:0,12:2") == {0: Std.ALL, 1: Std.NONE, 12: Std.ERR}
    assert Std.ALL == Std.OUT | Std.ERR


@pytest.mark.parametrize("text", ["", "4", "0:4", "a", "0:1,", "1-2", "0:1 1:2", "-1:2"])
def test_text_that_names_no_streams(text):
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        Std.from_str(text)


def test_one_value_for_each_rank():
    assert to_map(Std.OUT, 2) == {0: Std.OUT, 1: Std.OUT}
    assert to_map({1: Std.ERR, 7: Std.ALL}, 2) == {0: Std.NONE, 1: Std.ERR}


def environments(count=2, **more):
    return {rank: {"TORCHELASTIC_RUN_ID": "job", **more} for rank in range(count)}


def test_the_layout(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path / "new" / "logs"), redirects=Std.ALL)
    envs = environments(TORCHELASTIC_RESTART_COUNT="2")
    dest = specs.reify(envs)
    (run,) = (tmp_path / "new" / "logs").iterdir()
    assert run.name.startswith("job_")
    attempt = run / "attempt_2"
    assert dest.stdouts == {rank: str(attempt / str(rank) / "stdout.log") for rank in (0, 1)}
    assert dest.stderrs == {rank: str(attempt / str(rank) / "stderr.log") for rank in (0, 1)}
    assert dest.error_files == {rank: str(attempt / str(rank) / "error.json") for rank in (0, 1)}
    assert (dest.tee_stdouts, dest.tee_stderrs) == ({}, {})
    assert dest.filtered_stderr == str(attempt / "filtered_stderr.log")
    assert [env["TORCHELASTIC_ERROR_FILE"] for env in envs.values()] == [*dest.error_files.values()]
    assert sorted(path.name for path in attempt.iterdir()) == ["0", "1"]
    assert specs.root_log_dir == str(tmp_path / "new" / "logs")


def test_each_start_has_a_folder_and_nothing_is_deleted(tmp_path):
    """Also when the restart was not counted, as after a change of members."""
    specs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
    first = specs.reify(environments())
    Path(first.stdouts[0]).write_text("kept")
    second = specs.reify(environments())
    third = specs.reify(environments(TORCHELASTIC_RESTART_COUNT="1"))
    places = [Path(dest.stdouts[0]).parents[1] for dest in (first, second, third)]
    assert [place.name for place in places] == ["attempt_0", "attempt_1", "attempt_2"]
    assert len({place.parent for place in places}) == 1
    assert Path(first.stdouts[0]).read_text() == "kept"


def test_no_folder_named_is_a_temporary_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    specs = DefaultLogsSpecs()
    assert Path(specs.root_log_dir).parent == tmp_path
    assert Path(specs.root_log_dir).name.startswith("torchelastic_")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="log_dir is a file"):
        DefaultLogsSpecs(str(tmp_path / "file"))


def test_settings_make_them_equal(tmp_path):
    one, same, other = (DefaultLogsSpecs(str(tmp_path), tee=tee) for tee in (Std.OUT, Std.OUT, 0))
    assert one == same != other
    assert "tee=<Std.OUT" in repr(one)
    assert one != "something else"


def test_specs_of_ones_own_need_their_methods():
    with pytest.raises(TypeError, match="abstract"):
        LogsSpecs()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["logs", os.devnull])
@pytest.mark.parametrize(
    ("redirects", "tee", "ranks"),
    [
        ("0", "0", None),
        ("3", "0", None),
        ("0", "3", {1}),
        ("1", "2", None),
        ("0:3,1:1", "2:2", {0}),
        ("0", "0", {1}),
        ("2", "0:1", set()),
    ],
)
def test_the_paths_are_those_of_torch(tmp_path, folder, redirects, tee, ranks):
    theirs = pytest.importorskip("torch.distributed.elastic.multiprocessing")
    found = []
    for name, module in (("ours", None), ("theirs", theirs)):
        std = Std if module is None else module.Std
        specs = DefaultLogsSpecs if module is None else module.DefaultLogsSpecs
        place = folder if folder == os.devnull else str(tmp_path / name)
        streams = std.from_str(redirects), std.from_str(tee)
        envs = environments(3)
        dest = asdict(specs(place, *streams, ranks).reify(envs))
        if folder == os.devnull:  # not a folder that anything could be in
            dest |= {"filtered_stdout": "", "filtered_stderr": ""}
        text = repr((dest, envs)).replace(str(tmp_path / name), "")
        found.append(re.sub(r"job_\w+", "job_x", text))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "given", [{"redirects": "3"}, {"tee": {0: 5}}, {"tee": None}, {"local_ranks_filter": "0"}]
)
def test_what_names_no_streams_or_ranks_is_told_at_once(given):
    (name,) = given
    with pytest.raises(ValueError, match=f"{name} must"):
        DefaultLogsSpecs(os.devnull, **given)


def test_numbers_name_streams_too(tmp_path):
    """So does torch's Std, which is another class."""
    dest = DefaultLogsSpecs(str(tmp_path), redirects=1, tee={1: 2}).reify(environments())
    assert Path(dest.stdouts[0]).name == "stdout.log"
    assert dest.tee_stderrs == {1: dest.stderrs[1]}


def test_a_run_id_is_no_path(tmp_path):
    specs = DefaultLogsSpecs(str(tmp_path))
    dest = specs.reify(environments(TORCHELASTIC_RUN_ID="team/job"))
    assert Path(dest.error_files[0]).parents[2].name.startswith("team_job_")


def test_the_folder_of_a_run_may_be_set(tmp_path):
    """Some subclasses of agents do, for stages of their own."""
    specs = DefaultLogsSpecs(str(tmp_path))
    specs._run_log_dir = str(tmp_path)
    dest = specs.reify(environments())
    assert Path(dest.error_files[0]).parents[1] == tmp_path / "attempt_0"

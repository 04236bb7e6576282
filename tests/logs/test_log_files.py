"""Opening a worker's log, and reading its last lines."""

from __future__ import annotations

import os
import stat

import pytest

from elastic_fsm.launchers.streams import open_log
from elastic_fsm.logs.files import last_lines


def test_a_log_is_appended_to_and_not_inherited(tmp_path):
    path = tmp_path / "stdout.log"
    path.write_bytes(b"before\n")
    one, other = open_log(path), open_log(path)
    os.write(one, b"one\n")
    os.write(other, b"other\n")
    assert path.read_bytes() == b"before\none\nother\n"
    assert not os.get_inheritable(one)
    os.close(one)
    os.close(other)


def test_a_new_log_is_readable_by_others(tmp_path):
    old = os.umask(0o022)
    os.close(open_log(tmp_path / "new"))
    os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("data", "count", "lines"),
    [
        (b"", 3, []),
        (b"a\n", 3, ["a"]),
        (b"a\nb\nc\nd\n", 2, ["c", "d"]),
        (b"a\nunfinished", 2, ["a", "unfinished"]),
        (b"a\n\nb\n", 2, ["", "b"]),
        (b"a\nb\n", 0, []),
        (b"dos\r\nlines\r\n", 2, ["dos", "lines"]),
        (b"a\n 1%\r50%\r99%\nb\n", 2, ["99%", "b"]),
        (b"a\n 1%\r50%\r", 1, ["50%"]),
        (b"\xff\xfe ok \x00\n", 1, ["\ufffd\ufffd ok \x00"]),
    ],
)
def test_last_lines(tmp_path, data, count, lines):
    path = tmp_path / "log"
    path.write_bytes(data)
    assert last_lines(path, count) == lines


def test_only_the_end_is_read_and_a_cut_line_is_left_out(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\nabcdef\nxyz\n")
    assert last_lines(path, 9, limit_bytes=9) == ["xyz"]
    assert last_lines(path, 9, limit_bytes=11) == ["abcdef", "xyz"]  # cut exactly between lines
    assert last_lines(path, 9, limit_bytes=12) == ["abcdef", "xyz"]


def test_a_single_line_longer_than_the_limit_is_shown_by_its_end(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"short\n" + b"x" * 100 + b"the end\n")
    assert last_lines(path, 2, limit_bytes=10) == ["xxthe end"]


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    assert last_lines(path, 1) == ["last"]


def test_a_file_that_is_missing_or_no_file_has_no_lines(tmp_path):
    assert last_lines(tmp_path / "missing", 3) == []
    assert last_lines(tmp_path, 3) == []

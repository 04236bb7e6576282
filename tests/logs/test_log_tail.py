"""Following one file, without a thread."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_fsm.launchers.streams import open_log
from elastic_fsm.logs import tail
from elastic_fsm.logs.tail import Tail


class File:
    """A log file and its tail."""

    def __init__(self, path, **options) -> None:
        self.path = path
        self.fd = open_log(path)
        self.tail = Tail(path, stream="stdout", prefix=b"> ", **options)

    def write(self, data: bytes) -> None:
        os.write(self.fd, data)

    def read(self) -> bytes:
        """Everything that can be had now."""
        pieces = [self.tail.read()]
        while self.tail.more:
            pieces.append(self.tail.read())
        return b"".join(pieces)

    def close(self) -> None:
        os.close(self.fd)
        self.tail.close()


@pytest.fixture
def file(tmp_path):
    file = File(tmp_path / "log")
    yield file
    file.close()


def test_a_line_is_handed_on_when_it_is_whole(file):
    file.write(b"one\ntw")
    assert file.read() == b"one\n"
    assert file.read() == b""
    file.write(b"o\n")
    assert file.read() == b"two\n"


def test_a_progress_bar_is_handed_on_at_its_carriage_return(file):
    file.write(b" 10%\r 20%")
    assert file.read() == b" 10%\r"


def test_an_unfinished_line_is_handed_on_at_the_end(file):
    file.write(b"one\ntwo")
    assert file.read() == b"one\n"
    file.tail.end()
    assert file.read() == b"two\n"
    assert not file.tail.more


def test_whole_and_unfinished_lines_that_come_with_the_end(file):
    file.write(b"one\ntwo")
    file.tail.end()
    assert file.read() == b"one\ntwo\n"


def test_what_comes_after_the_end_is_not_read(file):
    file.write(b"one\n")
    file.tail.end()
    file.write(b"two\n")
    assert file.read() == b"one\n"


def test_an_empty_file_ends_with_nothing(file):
    file.tail.end()
    assert file.read() == b""
    assert not file.tail.more


def test_following_from_an_offset(tmp_path):
    (tmp_path / "log").write_bytes(b"old\nnew\n")
    file = File(tmp_path / "log", offset=4)
    assert file.read() == b"new\n"
    file.close()


def test_a_file_made_shorter_is_read_from_its_beginning(file):
    file.write(b"one\ntwo\npart")
    file.read()
    os.truncate(file.path, 0)
    assert file.read() == b""
    file.write(b"new\n")
    assert file.read() == b"new\n"


def test_a_file_made_shorter_within_an_unfinished_line(file):
    file.write(b"one\nunfinished")
    assert file.read() == b"one\n"
    os.truncate(file.path, 6)
    assert file.read() == b""
    file.write(b"do\n")
    assert file.read() == b"undo\n"


def test_a_file_made_shorter_after_its_end(file):
    file.write(b"one\ntwo\n")
    file.tail.end()
    os.truncate(file.path, 2)
    assert file.read() == b"on\n"
    assert not file.tail.more


def test_a_file_made_shorter_while_it_is_being_read(file, monkeypatch):
    """Its size said that there was more, and then there was not: that must not go on for ever."""
    size = os.stat_result((0, 0, 0, 0, 0, 0, 100, 0, 0, 0))
    monkeypatch.setattr(tail.os, "fstat", lambda fd: size)
    assert file.tail.read() == b""
    assert not file.tail.more
    file.tail.end()
    assert file.tail.read() == b""
    assert not file.tail.more


def test_a_deleted_file_is_followed_for_as_long_as_it_is_written(file):
    file.write(b"one\n")
    file.path.unlink()
    file.write(b"two\n")
    assert file.read() == b"one\ntwo\n"


def test_a_line_longer_than_the_bound_is_handed_on_in_pieces(file, monkeypatch):
    monkeypatch.setattr(tail, "BLOCK", 10)
    monkeypatch.setattr(tail, "LONGEST_LINE", 30)
    file.write(b"x" * 29)
    assert file.read() == b""
    file.write(b"x" * 6)
    assert file.read() == b"x" * 35
    file.write(b"y\nz\n")
    assert file.read() == b"y\nz\n"


def test_a_long_unfinished_line_is_not_read_again_for_every_write(file, monkeypatch):
    file.write(b"x" * 1000)
    file.read()
    sizes = []
    pread = os.pread
    monkeypatch.setattr(
        tail.os, "pread", lambda fd, size, at: (sizes.append(size), pread(fd, size, at))[1]
    )
    file.write(b"x" * 10)
    file.read()
    assert sizes == [10]


@settings(deadline=None)
@given(
    chunks=st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n"])).map(b"".join)),
    block=st.integers(1, 9),
)
def test_any_chunking_gives_the_same_lines(tmp_path_factory, echoed, chunks, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "BLOCK", block)
        file = File(tmp_path_factory.mktemp("chunks") / "log")
        out = b""
        for chunk in [*chunks, None]:
            if chunk is None:
                file.tail.end()
            else:
                file.write(chunk)
            while True:
                piece = file.tail.read()
                if piece:
                    out += file.tail.lines.render(piece, joined=out[-1:] != b"\n")
                if not file.tail.more:
                    break
        file.close()
    expected = echoed(b"".join(chunks), b"> ")
    assert out.removesuffix(b"\n") == expected.removesuffix(b"\n")

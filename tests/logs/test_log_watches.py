"""Being told of writes by inotify, and doing without it."""

from __future__ import annotations

import os
import select

import pytest

from elastic_fsm.launchers.streams import open_log
from elastic_fsm.logs import watches
from elastic_fsm.logs.inotify import Inotify
from elastic_fsm.logs.tail import Tail
from elastic_fsm.logs.watches import Watches


def write(path, data: bytes = b"x\n") -> None:
    fd = open_log(path)
    os.write(fd, data)
    os.close(fd)


@pytest.fixture
def armed(tmp_path):
    """Watches, and two armed files."""
    both = Watches()
    tails = []
    for name in ("one", "other"):
        os.close(open_log(tmp_path / name))
        tails.append(Tail(tmp_path / name, stream="stdout", prefix=b""))
        both.arm(tails[-1])
    yield both, *tails
    both.close()
    for tail in tails:
        tail.close()


def is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def test_a_write_is_told_of_once(armed):
    both, one, _ = armed
    assert not is_readable(both.fd)
    write(one.path)
    write(one.path)
    assert both.changed() == [one]
    write(one.path)
    assert not is_readable(both.fd)
    assert both.changed() == []


def test_a_file_armed_again_is_told_of_again(armed):
    both, one, other = armed
    write(one.path)
    both.changed()
    both.arm(one)
    write(other.path)
    write(one.path)
    assert set(both.changed()) == {one, other}


def test_a_truncation_counts(armed):
    both, one, _ = armed
    write(one.path)
    both.changed()
    both.arm(one)
    os.truncate(one.path, 0)
    assert both.changed() == [one]


def test_a_removed_file_is_not_told_of(armed):
    both, one, other = armed
    both.remove(one)
    write(one.path)
    write(other.path)
    assert both.changed() == [other]


def test_two_links_to_one_file_are_both_told_of(armed, tmp_path):
    both, one, _ = armed
    os.link(one.path, tmp_path / "link")
    link = Tail(tmp_path / "link", stream="stderr", prefix=b"")
    both.arm(link)
    write(one.path)
    assert set(both.changed()) == {one, link}
    both.remove(link)
    link.close()


def test_removing_one_of_two_links_keeps_the_other_watched(armed, tmp_path):
    both, one, _ = armed
    os.link(one.path, tmp_path / "link")
    link = Tail(tmp_path / "link", stream="stderr", prefix=b"")
    both.arm(link)
    both.remove(link)
    link.close()
    write(one.path)
    assert both.changed() == [one]


def test_when_records_are_lost_all_files_count_as_changed(armed, monkeypatch):
    both, one, other = armed
    monkeypatch.setattr(Inotify, "changed", lambda self: None)
    assert set(both.changed()) == {one, other}


def test_the_descriptor_is_closed_on_exec():
    inotify = Inotify()
    assert not os.get_inheritable(inotify.fileno())
    inotify.close()


def test_an_error_is_the_systems(tmp_path):
    inotify = Inotify()
    with pytest.raises(FileNotFoundError):
        inotify.add(tmp_path / "missing")
    inotify.close()


def refuse(*_):
    raise OSError("no inotify here")


@pytest.mark.parametrize("method", ["__init__", "add"])
def test_without_inotify_files_are_looked_at_by_the_clock(tmp_path, monkeypatch, method):
    monkeypatch.setattr(Inotify, method, refuse)
    now = 100.0
    monkeypatch.setattr(watches.time, "monotonic", lambda: now)
    os.close(open_log(tmp_path / "log"))
    tail = Tail(tmp_path / "log", stream="stdout", prefix=b"")
    alone = Watches()
    assert alone.next_look() is None
    alone.arm(tail)
    assert list(alone.due()) == [tail]
    assert list(alone.due()) == []
    assert alone.next_look() == now + watches.LOOK_EVERY
    now += watches.LOOK_EVERY
    assert list(alone.due()) == [tail]
    alone.remove(tail)
    assert alone.next_look() is None
    alone.close()
    tail.close()

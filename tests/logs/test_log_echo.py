"""What comes out of the console: real threads, files, pipes and writing processes."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_fsm.logs import tail
from elastic_fsm.logs.inotify import Inotify

WAIT = 30


def test_lines_go_to_the_stream_of_their_file(scene):
    out, err = scene.log("out"), scene.log("err", stream="stderr")
    out.write(b"to out\n")
    err.write(b"to err\n")
    assert scene.end() == (b"[out] to out\n", b"[err] to err\n")


def test_a_line_is_echoed_while_its_writer_lives(scene):
    log = scene.log("0")
    log.write(b"one\n")
    scene.out.await_data(b"[0] one\n")
    log.write(b"two\nthr")
    scene.out.await_data(b"[0] two\n")
    log.write(b"ee\n")
    scene.out.await_data(b"[0] three\n")


def test_what_is_there_before_following_is_echoed_from_the_offset(scene):
    log = scene.log("0", follow=False)
    log.write(b"old\nnew\n")
    scene.console.follow(log.path, stream="stdout", prefix=b"> ", offset=4)
    assert scene.end()[0] == b"> new\n"


def test_a_partial_line_waits_for_its_end_or_the_files(scene):
    log, other = scene.log("0"), scene.log("1")
    log.write(b"part")
    other.write(b"whole\n")
    assert scene.out.await_data(b"whole\n") == b"[1] whole\n"
    scene.console.finish(log.path)
    assert scene.console.drain(WAIT)
    assert scene.end()[0] == b"[1] whole\n[0] part\n"


def test_a_progress_bar_passes_live_and_is_never_joined_with_others(scene):
    bar, other = scene.log("bar"), scene.log("other")
    bar.write(b"10%\r")
    scene.out.await_data(b"[bar] 10%\r")
    bar.write(b"20%\r")
    scene.out.await_data(b"20%\r")
    other.write(b"line\n")
    scene.out.await_data(b"line\n")
    bar.write(b"30%\r")
    scene.out.await_data(b"30%\r")
    assert scene.end()[0] == b"[bar] 10%\r[bar] 20%\r\n[other] line\n[bar] 30%\r\n"


def test_the_agent_does_not_write_into_a_progress_bar(scene):
    bar = scene.log("bar", stream="stderr")
    bar.write(b"10%\r")
    scene.err.await_data(b"10%\r")
    scene.console.say("agent")
    assert scene.end()[1] == b"[bar] 10%\r\nagent\n"


def test_a_line_end_split_over_two_writes_stays_together(scene):
    log = scene.log("0")
    log.write(b"dos\r")
    scene.out.await_data(b"dos\r")
    log.write(b"\nnext\r\n")
    assert scene.end()[0] == b"[0] dos\r\n[0] next\r\n"


def test_a_line_end_split_by_another_stream_ends_one_line_only(scene):
    log, other = scene.log("0"), scene.log("1")
    log.write(b"dos\r")
    scene.out.await_data(b"dos\r")
    other.write(b"between\n")
    scene.out.await_data(b"between\n")
    log.write(b"\nnext\n")
    assert scene.end()[0] == b"[0] dos\r\n[1] between\n[0] next\n"


def test_bytes_that_are_no_text_pass(scene):
    log = scene.log("0")
    log.write(bytes(set(range(256)) - {10, 13}) + b"\n")
    assert scene.end()[0] == b"[0] " + bytes(set(range(256)) - {10, 13}) + b"\n"


def test_an_endless_line_passes_in_pieces_and_is_not_joined(scene, monkeypatch):
    monkeypatch.setattr(tail, "LONGEST_LINE", 10)
    log, other = scene.log("0"), scene.log("1")
    log.write(b"x" * 10)
    scene.out.await_data(b"x" * 10)
    log.write(b"y" * 10)
    scene.out.await_data(b"y" * 10)
    other.write(b"other\n")
    scene.out.await_data(b"other\n")
    log.write(b"z\n")
    assert scene.end()[0] == b"[0] xxxxxxxxxxyyyyyyyyyy\n[1] other\n[0] z\n"


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_random_bytes_in_random_chunks_come_out_as_expected(
    tmp_path_factory, scene_class, echoed, data
):
    chunks = data.draw(st.lists(st.binary() | st.sampled_from([b"\r", b"\n", b"ab\n", b"c\r\n"])))
    scene = scene_class(tmp_path_factory.mktemp("random"))
    scene.console.start()
    log = scene.log("0")
    for chunk in chunks:
        log.write(chunk)
        if data.draw(st.booleans()):
            assert scene.console.drain(WAIT)  # gives the thread a turn, to read what is there
    out, err = scene.end()
    scene.clean_up()
    assert (out, err) == (echoed(b"".join(chunks), b"[0] "), b"")


@settings(deadline=None)
@given(
    moves=st.lists(
        st.tuples(
            st.sampled_from("AB"), st.lists(st.sampled_from([b"a", b"\r", b"\n"])).map(b"".join)
        )
    )
)
def test_however_two_streams_take_turns_no_line_is_joined_or_lost(
    tmp_path_factory, scene_class, echoed, moves
):
    scene = scene_class(tmp_path_factory.mktemp("turns"))
    logs = {name: scene.log(name) for name in "AB"}
    wrote = dict.fromkeys("AB", b"")
    for name, chunk in moves:
        logs[name].write(chunk)
        wrote[name] += chunk
        scene.console._pump._run_requests()
        scene.console._pump._mark_changed(scene.console._pump._tails)
        scene.console._pump._serve_files()
    out, _ = run_to_the_end(scene)
    for row in out.split(b"\n"):
        assert len(set(re.findall(rb"\[[AB]\]", row))) <= 1
    for name in "AB":
        prefix = b"[%s] " % name.encode()
        texts = [unit.strip(b"\r\n") for unit in re.split(rb"(?=\[[AB]\] )", out) if prefix in unit]
        whole = echoed(wrote[name], prefix)
        units = [part.strip(b"\r\n") for part in re.split(rb"(?=\[[AB]\] )", whole)]
        assert texts == [unit for unit in units if unit]


def run_to_the_end(scene):
    scene.console.start()
    result = scene.end()
    scene.clean_up()
    return result


def test_files_followed_before_start_are_echoed(idle_scene):
    log = idle_scene.log("0")
    log.write(b"early\n")
    idle_scene.console.start()
    assert idle_scene.end()[0] == b"[0] early\n"


def test_text_that_cannot_be_encoded_is_escaped(scene):
    scene.console.say("caf\u00e9 \udcff")
    assert scene.end()[1] == "caf\u00e9 \\udcff\n".encode()


def test_following_twice_and_following_nothing(scene, tmp_path):
    log = scene.log("0")
    with pytest.raises(ValueError, match="followed already"):
        scene.console.follow(log.path, stream="stdout", prefix=b"")
    with pytest.raises(FileNotFoundError):
        scene.console.follow(tmp_path / "missing", stream="stdout", prefix=b"")
    scene.console.finish(tmp_path / "missing")
    scene.console.finish(log.path)
    scene.console.finish(log.path)
    log.write(b"after its end\n")
    offset = log.path.stat().st_size
    scene.console.follow(log.path, stream="stdout", prefix=b"> ", offset=offset)
    log.write(b"again\n")
    assert scene.end()[0].endswith(b"> again\n")


def test_deleted_and_shortened_files_do_no_harm(scene):
    deleted, shortened = scene.log("deleted"), scene.log("shortened")
    deleted.write(b"one\n")
    shortened.write(b"a long first line\n")
    scene.out.await_data(b"one\n")
    scene.out.await_data(b"first line\n")
    deleted.path.unlink()
    os.truncate(shortened.path, 0)
    assert scene.console.drain(WAIT)
    shortened.write(b"new\n")
    scene.out.await_data(b"[shortened] new\n")
    deleted.write(b"two\n")
    scene.out.await_data(b"[deleted] two\n")


def test_without_inotify_the_lines_come_all_the_same(idle_scene, monkeypatch):
    def refuse(self):
        raise OSError("no inotify here")

    monkeypatch.setattr(Inotify, "__init__", refuse)
    idle_scene.console.start()
    log = idle_scene.log("0")
    log.write(b"one\n")
    idle_scene.out.await_data(b"one\n")
    log.write(b"two\n")
    idle_scene.out.await_data(b"two\n")

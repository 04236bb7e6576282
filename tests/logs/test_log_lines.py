"""Cutting bytes into units and prefixing them, without files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_fsm.logs.lines import Prefixer, end_of_units

# Few different bytes, so that terminators meet; the prefix holds what could be mistaken.
TEXTS = st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\x00", b"\xff", b"\\g<0>"])).map(b"".join)
PREFIXES = st.sampled_from([b"[0] ", b"", b"\\1\\g<0>", b"a"])


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"a", 0),
        (b"a\n", 2),
        (b"a\nb", 2),
        (b"a\rb", 2),
        (b"a\nb\rc", 4),
        (b"a\rb\nc", 4),
    ],
)
def test_end_of_units(data, length):
    assert end_of_units(data) == length


@given(text=TEXTS, prefix=PREFIXES)
def test_every_unit_gets_the_prefix(echoed, text, prefix):
    if text:
        rendered = Prefixer(prefix).render(text, joined=False)
        assert rendered.removesuffix(b"\n") == echoed(text, prefix).removesuffix(b"\n")


@given(pieces=st.lists(TEXTS.filter(bool)), prefix=PREFIXES)
def test_it_does_not_matter_where_the_stream_is_cut(pieces, prefix):
    prefixer, whole = Prefixer(prefix), b"".join(pieces)
    rendered = b"".join(prefixer.render(piece, joined=True) for piece in pieces)
    assert not whole or rendered == Prefixer(prefix).render(whole, joined=False)


def test_a_newline_that_comes_after_others_have_written_is_dropped():
    prefixer = Prefixer(b"> ")
    assert prefixer.render(b"a\r", joined=False) == b"> a\r"
    assert prefixer.render(b"\nb\n", joined=False) == b"> b\n"


def test_the_rest_of_a_long_line_gets_the_prefix_again_only_after_others_have_written():
    prefixer = Prefixer(b"> ")
    assert prefixer.render(b"part", joined=False) == b"> part"
    assert prefixer.render(b"part", joined=True) == b"part"
    assert prefixer.render(b"part\n", joined=False) == b"> part\n"

"""What is read without Hydra's parser means what that says."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_fsm.config.simple_override import simple_override

VALUES = ["0", "8", "10", "007", "-1", "+1", "1_0", "1e3", "1.5", "0x1", "tee", "Tee2", "_", "a-b"]
VALUES += ["true", "False", "null", "NULL", "nan", "Inf", "infinity", "e5", "", "a b", "a.b", "é"]
VALUES += ["a,b", "[1]", "'a'", "${x}", "a=b", "choice", "٣", "8\n"]
words = st.builds(
    "{}{}={}".format,
    st.sampled_from(["", "+", "++"]),
    st.sampled_from(["a", "a.b", "a.b_1.C", "null", "a.null", "true.x", "inf", "_", "choice"]),
    st.sampled_from(VALUES),
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(words)
def test_it_is_what_hydra_reads(word):
    read = simple_override(word)
    if read is not None:
        assert [read] == OverridesParser.create().parse_overrides([word])


@pytest.mark.parametrize("word", ["spec.local_world_size=8", "logs=tee", "++machine.x=y"])
def test_what_everybody_writes_is_simple(word):
    assert simple_override(word) is not None


@pytest.mark.parametrize("word", ["a=null", "a=TRUE", "a=1.5", "a@b=c", "~a=b", "a/b=c", "a", "=1"])
def test_the_rest_is_for_hydra(word):
    assert simple_override(word) is None

"""What is read without Hydra's parser means what that says."""

from __future__ import annotations

from itertools import product

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from elastic_fsm.config.simple_override import simple_override

SIGNS = ["", "+", "++"]
KEYS = ["a", "a.b", "a.b_1.C", "null", "a.null", "true.x", "inf", "_", "choice"]
VALUES = ["0", "8", "10", "007", "-1", "+1", "1_0", "1e3", "1.5", "0x1", "tee", "Tee2", "_", "a-b"]
VALUES += ["true", "False", "null", "NULL", "nan", "Inf", "infinity", "e5", "", "a b", "a.b", "é"]
VALUES += ["a,b", "[1]", "'a'", "${x}", "a=b", "choice", "٣", "8\n"]


def test_it_is_what_hydra_reads():
    words = [f"{sign}{key}={value}" for sign, key, value in product(SIGNS, KEYS, VALUES)]
    read = {word: override for word in words if (override := simple_override(word)) is not None}
    assert list(read.values()) == OverridesParser.create().parse_overrides(list(read))


@pytest.mark.parametrize("word", ["spec.local_world_size=8", "logs=tee", "++machine.x=y"])
def test_what_everybody_writes_is_simple(word):
    assert simple_override(word) is not None


@pytest.mark.parametrize("word", ["a=null", "a=TRUE", "a=1.5", "a@b=c", "~a=b", "a/b=c", "a", "=1"])
def test_the_rest_is_for_hydra(word):
    assert simple_override(word) is None

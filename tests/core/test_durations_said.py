"""Durations as people read them, and that they can be read back."""

from __future__ import annotations

import pytest

from elastic_fsm.durations import parse_duration, say_duration, say_seconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"), (0.0004, "1ms"), (0.25, "250ms"), (0.9994, "999ms"), (0.9996, "1s"), (1, "1s"),
        (10.05, "10.05s"), (59.99, "59.99s"), (59.999, "1m 0s"), (100, "1m 40s"),
        (3599.9, "1h 0m 0s"), (7205, "2h 0m 5s"), (86400, "1d 0h 0m"), (97200, "1d 3h 0m"),
    ],
)  # fmt: skip
def test_said(seconds, said):
    assert say_duration(seconds) == said


@pytest.mark.parametrize("seconds", [0, 0.25, 1, 10.05, 40])
def test_short_ones_can_be_read_back(seconds):
    assert parse_duration(say_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0"), (0.25, "0.25"), (30.0, "30"), (7200, "7200"), (1e10, "1" + "0" * 10)],
)
def test_the_number_alone(seconds, said):
    assert say_seconds(seconds) == said

"""Text of others is shown without its control characters."""

from __future__ import annotations

from elastic_fsm.printable import printable


def test_control_characters_are_written_out():
    assert printable("\x1b[2Ja\rb\a\x00\x7f\x9b") == r"\x1b[2Ja\x0db\x07\x00\x7f\x9b"


def test_lines_tabs_and_other_writing_stay():
    text = "one\ttwo\nGrüße, 世界 …"
    assert printable(text) == text

"""A line of the journal: one JSON object, sealed with a checksum of itself."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from elastic_fsm.json_text import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_as_written", "to_line"]

_CHECK = b',"check":"%08x"}'


def to_line(record: Mapping[str, Any]) -> bytes:
    """A line, with the CRC-32 of what it is without its last key: nobody edits it unnoticed."""
    text = to_json(record)
    return text[:-1] + _CHECK % zlib.crc32(text) + b"\n"


def is_as_written(line: bytes) -> bool:
    """Whether a line ends with the checksum of the rest of it."""
    text, _, _ = line.rpartition(_CHECK[:10])
    return line.rstrip(b"\n") == text + _CHECK % zlib.crc32(text + b"}")

"""A line of the journal: one JSON object, sealed with a checksum of itself."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

__all__ = ["is_as_written", "to_line"]


def _plain(value: Any) -> Any:
    """What JSON has no word for: mappings that are no dictionaries, and all else as text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


# `json.dumps` makes an encoder for each call when it is given options. Records are made of
# values that were copied out of events and facts, so there are no circles to look for.
_encode = json.JSONEncoder(default=_plain, separators=(",", ":"), check_circular=False).encode

_CHECK = b',"check":"%08x"}'


def to_line(record: Mapping[str, Any]) -> bytes:
    """A line, with the CRC-32 of what it is without its last key: nobody edits it unnoticed."""
    text = _encode(record).encode()
    return text[:-1] + _CHECK % zlib.crc32(text) + b"\n"


def is_as_written(line: bytes) -> bool:
    """Whether a line ends with the checksum of the rest of it."""
    text, _, _ = line.rpartition(_CHECK[:10])
    return line.rstrip(b"\n") == text + _CHECK % zlib.crc32(text + b"}")

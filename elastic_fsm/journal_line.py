"""A line of the journal: one JSON object, sealed with a checksum of itself."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

__all__ = ["is_as_written", "to_line"]


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # of a class of a user's own, or a number of too many digits
        return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    """What JSON has no word for: mappings that are no dictionaries, and all else as text."""
    return dict(value) if isinstance(value, Mapping) else _text(value)


_DEEPEST = 10
_LARGEST = 1e300


def _tamed(value: Any, depth: int = 0) -> Any:
    """A copy that JSON can hold: keys are text, and so is a number that is none.

    What is nested more deeply than any event of ours, or holds itself, is cut.
    """
    if isinstance(value, Mapping | list | tuple):
        if depth == _DEEPEST:
            return "..."
        if isinstance(value, Mapping):
            return {_text(key): _tamed(each, depth + 1) for key, each in value.items()}
        return [_tamed(each, depth + 1) for each in value]
    is_number = isinstance(value, int | float) and abs(value) < _LARGEST  # which nan is not
    return value if is_number or value is None else _text(value)


_SAMPLE = {"text": 'é "\n', "by rank": {0: [1.5, None, True]}, "odd": {1j}}


def _encoder() -> Callable[[Any], str]:
    """What ``json.dumps`` does, whose encoder is here made once and not for each line.

    Circles are not looked for: they are found by the depth to which they lead.
    """
    encode = json.JSONEncoder(
        default=_plain, separators=(",", ":"), check_circular=False, allow_nan=False
    ).encode
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        pieces = make(None, _plain, encode_basestring_ascii, None, ":", ",", False, False, False)
    except TypeError:  # there is none, or one with other parameters
        return encode

    def at_once(record: Any) -> str:
        return "".join(pieces(record, 0))

    return at_once if at_once(_SAMPLE) == encode(_SAMPLE) else encode


_encode = _encoder()

_CHECK = b',"check":"%08x"}'


def to_line(record: Mapping[str, Any]) -> bytes:
    """A line, with the CRC-32 of what it is without its last key: nobody edits it unnoticed."""
    try:
        text = _encode(record).encode()
    except (TypeError, ValueError, RecursionError):  # an event of a user's own may hold anything
        text = _encode(_tamed(record)).encode()
    return text[:-1] + _CHECK % zlib.crc32(text) + b"\n"


def is_as_written(line: bytes) -> bool:
    """Whether a line ends with the checksum of the rest of it."""
    text, _, _ = line.rpartition(_CHECK[:10])
    return line.rstrip(b"\n") == text + _CHECK % zlib.crc32(text + b"}")

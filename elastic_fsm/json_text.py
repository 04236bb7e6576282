"""JSON of whatever an event may carry: what JSON has no word for is told as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

__all__ = ["to_json"]

_DEEPEST = 10
_LARGEST = 1e300


def to_json(value: Any) -> bytes:
    """JSON in the strict sense, without line breaks. Never raises, whatever the value holds.

    Objects are told by their ``str``, as are keys that are no text and numbers that are none; what
    is nested too deeply, or holds itself, is cut with ``...``.
    """
    try:
        return _encode(value).encode()
    except Exception:  # of objects of a user's own, too
        return _encode(_tamed(value)).encode()


def _tamed(value: Any, around: tuple[int, ...] = ()) -> Any:
    """A copy that JSON can hold; ``around`` are the ids of the values that it stands in."""
    try:
        return _copied(value, around)
    except Exception:
        return _text(value)


def _copied(value: Any, around: tuple[int, ...]) -> Any:
    inside = (*around, id(value))
    if isinstance(value, Mapping | list | tuple):
        if id(value) in around or len(around) == _DEEPEST:
            return "..."
        if isinstance(value, Mapping):
            return {_text(key): _tamed(each, inside) for key, each in value.items()}
        return [_tamed(each, inside) for each in value]
    is_number = isinstance(value, int | float) and abs(value) < _LARGEST  # which nan is not
    return value if is_number or value is None else _text(value)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # of a class of a user's own, or a number of too many digits
        return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    """For the encoder: a mapping that is no dictionary, and all else as text."""
    return dict(value) if isinstance(value, Mapping) else _text(value)


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

"""The simplest overrides, such as ``spec.local_world_size=8``, without Hydra's parser.

Its grammar is interpreted, and the first words cost 5 to 10 ms: more than all else that composing
does with them. What is read here means what it means to Hydra; anything else is left to Hydra.
"""

from __future__ import annotations

import re

from hydra.core.override_parser.types import Override, OverrideType, ValueType

__all__ = ["simple_override"]

_WORD = re.compile(
    r"(\+{0,2})([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(?:(0|[1-9]\d{0,18})|([A-Za-z_]\w*))", re.ASCII
)
_TYPES = {"": OverrideType.CHANGE, "+": OverrideType.ADD, "++": OverrideType.FORCE_ADD}
_NO_TEXT = ("true", "false", "null", "nan", "inf")


def simple_override(word: str) -> Override | None:
    """A key that gets a whole number or a name; None for everything else."""
    match = _WORD.fullmatch(word)
    if match is None or word.rpartition("=")[2].lower() in _NO_TEXT:
        return None
    sign, key, number, name = match.groups()
    return Override(
        type=_TYPES[sign],
        key_or_group=key,
        value_type=ValueType.ELEMENT,
        _value=name or int(number),
        input_line=word,
    )

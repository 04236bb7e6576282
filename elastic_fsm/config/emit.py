"""Writes a configuration as YAML, if wanted with the place where each value came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from elastic_fsm.config.tree import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["to_yaml"]

_WIDE = 10_000  # one line a value: `grep` finds it whole
_COLUMN = 44


def to_yaml(values: dict[str, Any], origin: Callable[[str], str] | None = None) -> str:
    """``values`` as YAML that reads back; ``origin`` adds a comment to each value."""
    try:
        if origin is None:
            return _dump(values)
        return "".join(f"{line}\n" for line in _lines(values, "", "", origin))
    except UnicodeEncodeError:  # a word of the command line that is no text: show its bytes
        return to_yaml(_encodable(values), origin)


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _dump(value: Any, *, flow: bool = False) -> str:
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": _WIDE}
    text: str = yaml.dump(value, Dumper=dumper, default_flow_style=flow, **style)
    if not flow:
        return text
    text = text.removesuffix("...\n").rstrip("\n")
    # A comment needs the value on one line; JSON is YAML and writes it so.
    return json.dumps(value) if "\n" in text else text


def _lines(
    values: dict[str, Any], path: str, indent: str, origin: Callable[[str], str]
) -> Iterator[str]:
    for key, value in values.items():
        here = dotted(path, key)
        name = f"{indent}{_dump(key, flow=True)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _lines(value, here, indent + "  ", origin)
        else:
            line = f"{name} {_dump(value, flow=True)}"
            where = "".join(c if c.isprintable() else repr(c)[1:-1] for c in origin(here))
            yield f"{line.ljust(_COLUMN)}  # {where}"

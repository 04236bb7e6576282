"""Writes a configuration as YAML, if wanted with the place where each value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["to_yaml"]

_WIDE = 10_000  # one line a value: `grep` finds it whole
_COLUMN = 44


def to_yaml(values: dict[str, Any], origin: Callable[[str], str] | None = None) -> str:
    """``values`` as YAML that reads back; ``origin`` adds a comment to each value."""
    if origin is None:
        return _dump(values)
    return "".join(f"{line}\n" for line in _lines(values, "", "", origin))


def _dump(value: Any, *, flow: bool = False) -> str:
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": _WIDE}
    text: str = yaml.dump(value, Dumper=dumper, default_flow_style=flow, **style)
    return text.removesuffix("...\n").rstrip("\n") if flow else text


def _lines(
    values: dict[str, Any], path: str, indent: str, origin: Callable[[str], str]
) -> Iterator[str]:
    for key, value in values.items():
        here = f"{path}.{key}" if path else str(key)
        name = f"{indent}{_dump(key, flow=True)}:"
        if isinstance(value, dict) and value:
            yield name
            yield from _lines(value, here, indent + "  ", origin)
        else:
            yield f"{name} {_dump(value, flow=True)}".ljust(_COLUMN) + f"  # {origin(here)}"

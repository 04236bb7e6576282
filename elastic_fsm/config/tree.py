"""Plain trees of mappings: walked, merged and changed as OmegaConf would, without its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Path", "dotted", "index", "leaves", "merge", "nested", "put", "remove", "strings"]

Path = tuple[str | int, ...]

# Digits of the largest index that is looked at; Python itself gives up at some thousands.
_MOST_DIGITS = 9


def dotted(path: str, key: object) -> str:
    """The dotted path of ``key`` under ``path``, which is empty for the root."""
    return f"{path}.{key}" if path else str(key)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value with its path; lists are values, and so is an empty mapping."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif path:
        yield path, value


def strings(value: Any) -> Iterator[str]:
    """Every text in a tree."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def nested(path: Path, value: Any) -> dict[Any, Any]:
    """The mapping of mappings in which ``value`` stands at ``path``."""
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def merge(into: dict[Any, Any], other: Mapping[Any, Any]) -> None:
    """Mappings are merged, everything else is replaced; nothing of ``other`` is shared."""
    for key, value in other.items():
        if not isinstance(value, dict):
            into[key] = list(value) if isinstance(value, list) else value
            continue
        if not isinstance(into.get(key), dict):
            into[key] = {}
        merge(into[key], value)


def put(tree: dict[Any, Any], path: list[str], value: Any) -> None:
    """Set or merge ``value`` at ``path``, making what is missing on the way.

    Raises ``LookupError`` where the way leads through something that is neither a mapping nor a
    list that has the index.
    """
    *above, last = path
    node: Any = tree
    for name in above:
        node = node.setdefault(name, {}) if isinstance(node, dict) else node[_index(node, name)]
    if not isinstance(node, dict):
        node[_index(node, last)] = value
    else:
        merge(node, {last: value})


def index(name: str) -> int | None:
    """The number that a part of a path is; None for one that is none, or beyond any list."""
    return int(name) if name.isdecimal() and len(name) <= _MOST_DIGITS else None


def _index(node: Any, name: str) -> int:
    number = index(name)
    if not isinstance(node, list) or number is None or number >= len(node):
        raise LookupError(name)
    return number


def remove(tree: dict[Any, Any], path: list[str]) -> None:
    """Take out what is at ``path``; raises ``LookupError`` with what is there if it is not."""
    node: Any = tree
    for name in path[:-1]:
        node = node.get(name) if isinstance(node, dict) else None
    if not isinstance(node, dict) or path[-1] not in node:
        raise LookupError(sorted(map(str, node)) if isinstance(node, dict) else [])
    del node[path[-1]]

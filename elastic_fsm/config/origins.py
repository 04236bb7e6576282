"""Where each value of a run came from.

Hydra forgets lines. So the files are read a second time, in the order in which they were merged,
and their lines noted; most runs never ask, and pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from elastic_fsm.config.tree import Path, dotted, leaves
from elastic_fsm.config.yamlfile import compose_nodes
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.config.layers import FileLayer, Layers

__all__ = ["PROGRAM", "origins"]

PROGRAM = "the calling program"


def origins(layers: Layers) -> dict[str, str]:
    """Every dotted path that somebody wrote, with the last place that wrote it."""
    table: dict[str, str] = {}
    for layer in layers.files:
        for path, where, is_value in _file(layer):
            _note(table, path, where, is_value)
    if layers.whole_machine:
        _forget(table, "machine")
    for inner, _ in leaves(dict(layers.program)):
        _note(table, ".".join(map(str, inner)), PROGRAM, True)
    for override, word in layers.overrides:
        _word(table, override, f"command line: {word}")
    for text in layers.texts:
        _values(table, text.path, text.value, f"command line: {text.word}")
    return table


def _note(table: dict[str, str], path: str, where: str, is_value: bool) -> None:
    """A value takes the place of all that stood below it; a mapping is merged into it."""
    if is_value and path in table:
        _forget(table, path)
    table[path] = where


def _forget(table: dict[str, str], path: str) -> None:
    for known in [known for known in table if known.startswith(f"{path}.")]:
        del table[known]
    table.pop(path, None)


def _word(table: dict[str, str], override: Any, where: str) -> None:
    if override.is_delete():
        _forget(table, override.key_or_group)
        return
    parts = tuple(override.key_or_group.split("."))
    _values(table, parts, override.value(), where)


def _values(table: dict[str, str], path: Path, value: Any, where: str) -> None:
    """Note each value and the mappings around it that the word may have made."""
    for inner, _ in leaves(value, path):
        parts = [str(part) for part in inner]
        for depth in range(1, len(parts)):
            above = ".".join(parts[:depth])
            if parts[depth].isdecimal():  # a list is shown, and checked, as one value
                table[above] = where
            else:
                table.setdefault(above, where)
        _note(table, ".".join(parts), where, True)


def _file(layer: FileLayer) -> Iterator[tuple[str, str, bool]]:
    try:
        root = compose_nodes(layer.path.read_text(encoding="utf-8-sig"), name=layer.name)
    except (OSError, UnicodeDecodeError, BadInput):
        return  # changed since it was composed
    if root is not None:
        yield from _node(root, layer.package.removeprefix("_global_").removeprefix("."), layer.name)


def _node(node: yaml.Node, path: str, name: str) -> Iterator[tuple[str, str, bool]]:
    if isinstance(node, yaml.SequenceNode):
        for index, inner in enumerate(node.value):
            yield f"{path}.{index}", f"{name}:{inner.start_mark.line + 1}", True
            yield from _node(inner, f"{path}.{index}", name)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            bases = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for base in bases:
                yield from _node(base, path, name)
            continue
        here = dotted(path, key.value)
        if here != "defaults":
            yield here, f"{name}:{key.start_mark.line + 1}", not isinstance(value, yaml.MappingNode)
            yield from _node(value, here, name)

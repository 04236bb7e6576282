"""Reads one YAML file the way OmegaConf would, but with all its mistakes named and placed.

It differs from ``OmegaConf.load`` in three ways. The worker's text (see ``verbatim``) is taken
from the YAML node, before a type is guessed for it. Keys whose value is text stay text, so that
``run_id: 20240101_120000`` is no number. And libyaml reads the file where it is available,
which is five times as fast.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import yaml

from elastic_fsm.config.paths import shown
from elastic_fsm.config.schema import field_types
from elastic_fsm.config.tree import dotted
from elastic_fsm.config.verbatim import encode, is_verbatim
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem, cut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FEWER_DIGITS", "TOO_LONG", "compose_nodes", "parse", "parse_flow", "read_text"]

_TAG = "tag:yaml.org,2002:"
_STR, _MERGE, _NULL = _TAG + "str", _TAG + "merge", _TAG + "null"
_GUESSED = {_TAG + kind for kind in ("bool", "int", "float")}
_KNOWN = _GUESSED | {_STR, _MERGE, _NULL, _TAG + "map", _TAG + "seq"}
# Far more than anybody writes by hand, and far less than Python's recursion can take; of
# values OmegaConf makes some thousands a second.
_DEEPEST = 64
_LARGEST = 50_000
_WIDE = 160
# Python writes and reads some thousands of digits, and nobody means a number that large.
_MOST_DIGITS = 1000
TOO_LONG = "too long for a number"
FEWER_DIGITS = "give a number of fewer digits; as text, quote it"


def read_text(path: Path, *, name: str = "") -> str:
    """The file's text; ``name`` is how the user calls it."""
    name = name or shown(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start}"
        raise BadInput.of(what, where=name, fix="save it as UTF-8 text") from None
    except FileNotFoundError:
        raise BadInput.of("no such file", where=name, fix=_neighbours(path)) from None
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise BadInput.of(what, where=name, fix="give the name of a YAML file") from None


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {shown(path.parent)!r} either"
    names = sorted(entry.name for entry in path.parent.glob("*.y*ml"))[:8]
    return f"YAML files there: {', '.join(names)}" if names else "no YAML file stands there"


def parse(text: str, *, name: str, package: str = "") -> dict[str, Any]:
    """The file's mapping, worker's text encoded; ``package`` is where its keys will stand."""
    root = compose_nodes(text, name=name)
    if root is None or root.tag == _NULL:
        return {}
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise BadInput.of(
            f"holds {kind}, not keys with values", where=name, fix="write it as `key: value`"
        )
    if problems := list(_problems(root, package, name)):
        raise BadInput(problems)
    return dict(_construct(_sealed(root, package), name=name, text=text))


def parse_flow(text: str, *, path: str) -> Any:
    """A value typed on the command line, such as ``[--lr, 1e3]``, as the file's would be read."""
    root = compose_nodes(text, name=COMMAND_LINE)
    return None if root is None else _construct(_sealed(root, path), name="", text=text)


def compose_nodes(text: str, *, name: str) -> yaml.Node | None:
    """The document's node tree, whose marks know the lines; None for an empty file."""
    loader = _loader_class()(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    except yaml.YAMLError as error:
        raise BadInput([_syntax_problem(error, text, name)]) from None
    finally:
        loader.dispose()
    if node is not None:
        _measure(node, name, {})
    return node


def _measure(
    node: yaml.Node, name: str, known: dict[int, tuple[int, int] | None], depth: int = 1
) -> tuple[int, int]:
    """Levels and values of a tree, its aliases written out.

    Raises :class:`BadInput` when there are too many to be looked through, or no end of them.
    """
    if isinstance(node, yaml.ScalarNode):
        return 0, 1
    if id(node) in known:
        if (found := known[id(node)]) is None:
            raise _endless("holds itself", node, name, "an alias must not stand in what it names")
        return found
    known[id(node)] = None
    levels, size = 1, 1
    pairs = isinstance(node, yaml.MappingNode)
    for inner in chain.from_iterable(node.value) if pairs else node.value:
        below, count = _measure(inner, name, known, depth + 1) if depth <= _DEEPEST else (0, 1)
        levels, size = max(levels, below + 1), size + count
    if depth > _DEEPEST or levels > _DEEPEST:
        fix = f"at most {_DEEPEST} levels of lists and mappings can be read"
        raise _endless("is nested too deeply", node, name, fix)
    if size > _LARGEST:
        fix = f"with its aliases written out it has more than {_LARGEST} values"
        raise _endless("is too large", node, name, fix)
    known[id(node)] = levels, size
    return levels, size


def _endless(what: str, node: yaml.Node, name: str, fix: str) -> BadInput:
    return BadInput.of(what, where=f"{name}:{node.start_mark.line + 1}", fix=fix)


def _construct(node: yaml.Node, *, name: str, text: str) -> Any:
    loader = _loader_class()("")
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise BadInput([_syntax_problem(error, text, name)]) from None
    except ValueError:  # Python's limit; in a file it has been found already
        raise BadInput.of(f"a value is {TOO_LONG}", where=name, fix=FEWER_DIGITS) from None
    finally:
        loader.dispose()


@cache
def _loader_class() -> Any:
    from omegaconf._utils import get_yaml_loader

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """OmegaConf's idea of a number (1e3 is one, a date is none) on the fast parser."""

        yaml_implicit_resolvers = get_yaml_loader().yaml_implicit_resolvers

    return Loader


def _syntax_problem(error: yaml.YAMLError, text: str, name: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if reason.startswith("but "):
        reason = f"{getattr(error, 'context', '')}, {reason}"
    if mark is None:
        return Problem(f"not YAML: {reason}", where=name)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    shown = line.strip() if len(line) <= _WIDE else f"{line.strip()[:_WIDE]}…"
    fix = f"line {mark.line + 1} is: {shown}" if shown else "the file ends too early"
    if "\t" in line[: len(line) - len(line.lstrip())]:
        fix += "\n    it is indented with a tab; YAML takes spaces only"
    return Problem(
        f"not YAML: {reason}", where=f"{name}:{mark.line + 1}:{mark.column + 1}", fix=fix
    )


def _problems(node: yaml.Node, path: str, name: str) -> Iterator[Problem]:
    """Keys given twice, keys that YAML 1.1 does not read as text (``on``, ``1``), strange tags."""
    if node.tag not in _KNOWN:
        tag = node.tag.replace(_TAG, "!!")
        what = (
            f"YAML reads {node.value} as {tag}" if node.value == "=" else f"{tag} has no use here"
        )
        where = f"{name}:{node.start_mark.line + 1}"
        yield Problem(what, path=path, where=where, fix="write plain text, or quote it")
    if _is_too_long(node) and not is_verbatim(path):
        where = f"{name}:{node.start_mark.line + 1}"
        yield Problem(f"{cut(node.value)} is {TOO_LONG}", path=path, where=where, fix=FEWER_DIGITS)
    if isinstance(node, yaml.SequenceNode):
        for index, inner in enumerate(node.value):
            yield from _problems(inner, f"{path}.{index}", name)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        if _is_too_long(key):
            yield from _problems(key, path, name)
            continue
        here, line = dotted(path, key.value), key.start_mark.line + 1
        if key.value in seen:
            what = f"given twice, first in line {seen[key.value]}"
            yield Problem(what, path=here, where=f"{name}:{line}", fix="remove one of the two")
        elif key.tag != _STR and not _free_key(path):
            what = f"YAML reads the key {key.value} as {key.tag.removeprefix(_TAG)}, not as text"
            fix = f"quote it: '{key.value}': …"
            yield Problem(what, path=here, where=f"{name}:{line}", fix=fix)
        seen[key.value] = line
        yield from _problems(value, here, name)


def _is_too_long(node: yaml.Node) -> bool:
    return node.tag == _TAG + "int" and len(node.value) > _MOST_DIGITS


def _free_key(path: str) -> bool:
    """Local ranks are numbers; names of variables are taken as they are typed."""
    return path.startswith(("spec.env", "spec.worker_env"))


def _sealed(node: yaml.Node, path: str) -> yaml.Node:
    """A copy of the tree in which text is text (a copy, for an anchor's node stands twice)."""
    if isinstance(node, yaml.ScalarNode):
        return _sealed_scalar(node, path)
    if path == "machine":
        return node  # large, and nothing in it is a worker's text
    if isinstance(node, yaml.SequenceNode):
        value: list[Any] = [_sealed(v, f"{path}.{i}") for i, v in enumerate(node.value)]
    else:
        value = [_sealed_pair(key, inner, path) for key, inner in node.value]
    return type(node)(node.tag, value, node.start_mark, node.end_mark)


def _sealed_pair(key: yaml.Node, value: yaml.Node, path: str) -> tuple[yaml.Node, yaml.Node]:
    if key.tag == _MERGE:  # `<<: *base`: the merged keys stand where this one does
        bases = value.value if isinstance(value, yaml.SequenceNode) else [value]
        sealed = [_sealed(base, path) for base in bases]
        return key, yaml.SequenceNode(_TAG + "seq", sealed, value.start_mark, value.end_mark)
    inner = _sealed(value, dotted(path, str(key.value)))
    if isinstance(key, yaml.ScalarNode) and is_verbatim(dotted(path, key.value)):
        key = yaml.ScalarNode(_STR, key.value, key.start_mark, key.end_mark)
    return key, inner


def _sealed_scalar(node: yaml.ScalarNode, path: str) -> yaml.ScalarNode:
    if is_verbatim(path) and not (node.tag == _NULL and path == "spec.entrypoint"):
        return yaml.ScalarNode(_STR, encode(node.value), node.start_mark, node.end_mark)
    if field_types().get(path, "").startswith("str") and node.tag in _GUESSED:
        return yaml.ScalarNode(_STR, node.value, node.start_mark, node.end_mark)
    return node

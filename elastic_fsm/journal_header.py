"""The head of a journal: all that a reader needs to understand the lines below it.

It holds the machine as it was composed, the values of the configuration that the machine names
(``stop.signals``), and the plugins with the files that they came from. With that, and nothing
else, the run can be replayed on another computer.
"""

from __future__ import annotations

import functools
import operator
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm import __version__
from elastic_fsm.list_form import from_list_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["journal_header", "settings_named"]

_DOTTED = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)+")


def journal_header(
    values: Mapping[str, Any], *, run_id: str, host: str, plugins: Iterable[str] = ()
) -> dict[str, Any]:
    """The header for a run's configuration values; secrets must have been hidden in them."""
    machine = from_list_form(values["machine"])[0]
    return {
        "elastic_fsm": __version__,
        "python": sys.version.split()[0],
        "run_id": run_id,
        "host": host,
        "pid": os.getpid(),
        "machine": machine,
        "settings": settings_named(machine, values),
        "plugins": {name: _file_of(name) for name in plugins},
    }


def settings_named(machine: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those configuration values that the machine names, nested as in the configuration."""
    found: dict[str, Any] = {}
    for name in _dotted_names(machine):
        keys = name.split(".")
        with suppress(LookupError, TypeError):  # no such value: it is some other text
            _put(found, keys, functools.reduce(operator.getitem, keys, values))
    return found


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    *groups, key = keys
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[key] = value


def _dotted_names(value: Any) -> Iterator[str]:
    """Texts that look like names of values; prose has spaces in it."""
    if isinstance(value, str):
        if _DOTTED.fullmatch(value):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _dotted_names(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _dotted_names(inner)


def _file_of(module: str) -> str | None:
    """Where a module came from; None for one that has no file."""
    return getattr(sys.modules.get(module), "__file__", None)

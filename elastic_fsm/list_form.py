"""Declarations in the list form of the ``transitions`` library, turned into ours.

There, states are a list of names or mappings and transitions a list of mappings or of lists
(``[trigger, source, dest, conditions, unless, before, after]``) without names. Ours are mappings
by name, so that each can be reached by an override; a transition without ``name`` is called by
its event and source. What that library has and this one has not is a problem, each with what to
write instead: leaving it out would change what the machine does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from elastic_fsm.problems import Problem, cut

__all__ = ["from_list_form", "place_in_lists"]

_ORDER = ("trigger", "source", "dest", "conditions", "unless", "before", "after", "prepare")

# Keys that have no counterpart, with what to do about them. Those of the machine are options of
# the library's constructor.
_NOT_HERE = {
    "children": "states do not nest: make each inner state a state of its own",
    "initial": "states do not nest: name an inner state as the `dest` of a transition",
    "parallel": "a machine is in one state at a time: split the states",
    "remap": "states do not nest: draw an arrow from each inner state",
    "prepare": "conditions must be pure: take it out, or make it an action in `before`",
    "on_final": "use `on_enter` of the final states",
    "on_timeout": "bind the timer to an event: `timeouts: {NAME: 30s}`, with a transition for it",
    "timeout": "bind the timer to an event: `timeouts: {NAME: 30s}`, with a transition for it",
    "tags": "take it out",
    "accepted": "use `final: true`",
    "ignore_invalid_triggers": "take it out; name what a state ignores under `ignores:`",
    "model": "take it out; the agent is what actions get",
    "auto_transitions": "take it out; only declared transitions exist",
    "ordered_transitions": "write the transitions out",
    "send_event": "take it out; conditions and actions always get the event",
    "queued": "take it out; events are always queued",
    "name": "take it out",
    "before_state_change": "use `before` of the transitions",
    "after_state_change": "use `after` of the transitions",
    "prepare_event": "conditions must be pure: take it out",
    "finalize_event": "take it out; every event is in the journal",
    "on_exception": "use a transition with `trigger: action_failed`",
}
# What changes nothing: an exported dictionary has these.
_HARMLESS = {
    "send_event": True,
    "auto_transitions": False,
    "ignore_invalid_triggers": True,
    "queued": True,
}


def from_list_form(data: Any) -> tuple[Any, list[Problem]]:
    """The same declaration as mappings, and what of it cannot be taken over.

    Anything that is not in list form comes back as it is.
    """
    if not isinstance(data, Mapping) or not _has_lists(data):
        return data, []
    problems: list[Problem] = []
    whole = {k: v for k, v in data.items() if not (k in _HARMLESS and v == _HARMLESS[k])}
    found = _without(whole, {"initial"}, "machine", problems)
    for key, named in _NAMED.items():
        if isinstance(found.get(key), list | tuple):
            found[key] = {name: values for _, name, values in named(found[key], problems)}
    return found, problems


def place_in_lists(path: str, machine: Any) -> str:
    """A path such as ``machine.transitions.go_A.dest`` with the places that entry and value have
    in their lists instead of their names; as it is, where there is no list."""
    group, key, name, *rest = [*path.split("."), "", "", ""]
    entries = machine.get(key) if isinstance(machine, Mapping) and group == "machine" else None
    if key not in _NAMED or not isinstance(entries, list | tuple):
        return path
    numbers = {named: number for number, named, _ in _NAMED[key](entries, [])}
    if name not in numbers:
        return path
    if isinstance(entries[numbers[name]], list | tuple) and rest[0] in _ORDER:
        rest[0] = str(_ORDER.index(rest[0]))
    return ".".join(filter(None, [group, key, str(numbers[name]), *rest]))


def _has_lists(data: Mapping[Any, Any]) -> bool:
    return any(isinstance(data.get(key), list | tuple) for key in ("states", "transitions"))


def _without(
    data: Mapping[Any, Any], known: set[str], path: str, problems: list[Problem]
) -> dict[Any, Any]:
    """The mapping without what has no counterpart, each told as a problem."""
    found = {}
    for key, value in data.items():
        if key in _NOT_HERE and key not in known:
            if value not in (None, [], False):
                what = f"{key!r} of the transitions library is not known here"
                problems.append(Problem(what, path=f"{path}.{key}", fix=_NOT_HERE[key]))
        else:
            found[key] = value
    return found


def _named_states(entries: Any, problems: list[Problem]) -> _Named:
    """Number, name and values of each entry that has a name."""
    names: set[str] = set()
    for number, entry in enumerate(entries):
        path = f"machine.states.{number}"
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            name, values = entry["name"], {k: v for k, v in entry.items() if k != "name"}
            values = _without(values, set(), path, problems)
        elif isinstance(entry, str):
            name, values = entry, {}
        else:
            what = f"must be a name, or a mapping with `name:`, not {cut(entry)}"
            problems.append(Problem(what, path=path))
            continue
        if name in names:
            problems.append(Problem(f"there are two states {name!r}", path=path))
        names.add(name)
        yield number, name, values


def _named_transitions(entries: Any, problems: list[Problem]) -> _Named:
    """Number, name and values of each entry; one without a name is given one."""
    names: set[str] = set()
    for number, entry in enumerate(entries):
        path = f"machine.transitions.{number}"
        values = _as_mapping(entry)
        if values is None:
            what = f"must be a mapping, or a list [trigger, source, dest, …], not {cut(entry)}"
            problems.append(Problem(what, path=path))
            continue
        name = values.pop("name", None)
        name = name if isinstance(name, str) else ""
        if name in names:
            problems.append(Problem(f"there are two transitions {name!r}", path=path))
        name = name or _free(_name(values), names)
        names.add(name)
        yield number, name, _without(values, set(), path, problems)


_Named = Iterator[tuple[int, str, dict[Any, Any]]]
_NAMED = {"states": _named_states, "transitions": _named_transitions}


def _as_mapping(entry: Any) -> dict[Any, Any] | None:
    if isinstance(entry, Mapping):
        return dict(entry)
    if isinstance(entry, list | tuple) and 3 <= len(entry) <= len(_ORDER):
        return {key: value for key, value in zip(_ORDER, entry, strict=False) if value is not None}
    return None


def _name(values: Mapping[Any, Any]) -> str:
    source = values.get("source")
    first = source[0] if isinstance(source, list | tuple) and source else source
    words = f"{values.get('trigger')}_{'any' if first == '*' else first}"
    return re.sub(r"\W", "_", words)


def _free(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free

"""Reads a declaration from plain mappings, and reports every entry that is not of the right shape.

Reading goes on after a finding, so that one look at a file finds all that is wrong with it; a
misspelt key is read as what it probably means, so that one slip is one problem. What the entries
*mean* together is for ``checks``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from elastic_fsm.declaration import ANY, SAME, MachineSpec, StateSpec, TransitionSpec, Use
from elastic_fsm.group import WorkerState
from elastic_fsm.list_form import from_list_form
from elastic_fsm.problems import Problem, closest, cut, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["NOWHERE", "read_machine"]

NOWHERE = ""
"""The ``dest`` of a transition of which it could not be read when it is taken or where it leads;
that was told."""

T = TypeVar("T")

# The keys of each mapping: the fields of what it becomes; a name is a key of the mapping above.
_MACHINE = tuple(field.name for field in fields(MachineSpec) if field.init)
_STATE = StateSpec._fields[1:]
_TRANSITION = (*TransitionSpec._fields[1:], "like")

_LIKE = ("dest", "conditions", "unless", "before", "after")
"""What a transition takes from the one that it is ``like``, unless it has the key itself."""

_MEANINGS = {ANY: "every state that is not final", SAME: "the state itself"}


def read_machine(data: Any) -> tuple[MachineSpec, list[Problem]]:
    """A declaration from plain mappings, and what is wrong with its shape.

    Entries that cannot be read are left out or take their default; callers must not run a
    machine that has problems.
    """
    data, problems = from_list_form(data)
    reader = _Reader(data, "machine", _MACHINE, problems)
    reader.require("initial", "states", "transitions")
    states = {
        name: _read_state(name, entry, reader.problems) for name, entry in reader.entries("states")
    }
    transitions = _read_transitions(reader, states)
    spec = MachineSpec(
        initial=reader.take("initial", _name, ""),
        states=states,
        transitions=transitions,
        doc=reader.take("doc", _text, ""),
    )
    return spec, reader.problems


def _read_state(name: str, data: Any, problems: list[Problem]) -> StateSpec:
    reader = _Reader({} if data is None else data, f"machine.states.{name}", _STATE, problems)
    spec = StateSpec(
        name=name,
        doc=reader.take("doc", _text, ""),
        worker_state=reader.take("worker_state", _worker_state, None),
        on_enter=reader.uses("on_enter"),
        on_exit=reader.uses("on_exit"),
        timeouts=reader.take("timeouts", _mapping, {}),
        ignores=reader.names("ignores"),
        final=reader.take("final", _flag, False),
        exit_code=reader.take("exit_code", _exit_code, None, instead=0),
    )
    return spec


def _read_transitions(machine: _Reader, states: Collection[str]) -> dict[str, TransitionSpec]:
    readers: dict[str, _Reader] = {}
    specs: dict[str, TransitionSpec] = {}
    for name, entry in machine.entries("transitions"):
        path = f"machine.transitions.{name}"
        readers[name] = _Reader(entry, path, _TRANSITION, machine.problems)
        specs[name] = _read_transition(name, readers[name])
    return _likened(specs, readers, states)


def _likened(
    specs: Mapping[str, TransitionSpec], readers: Mapping[str, _Reader], states: Collection[str]
) -> dict[str, TransitionSpec]:
    """With what each takes from the one that it is like, which may itself be like another."""
    models = {name: like for name in specs if (like := _model(name, readers)) is not None}
    known = {name: specs[name] for name in specs if name not in models}
    while ready := [n for n in models if n not in known and models[n] in known]:
        known |= {n: _taking(specs[n], readers[n], known[models[n]], states) for n in ready}
    _report_circles(models, readers)
    return {name: known.get(name, spec._replace(dest=NOWHERE)) for name, spec in specs.items()}


def _model(name: str, readers: Mapping[str, _Reader]) -> str | None:
    """The transition that a transition is like; None: it is plain, empty: nobody knows."""
    reader = readers[name]
    like = reader.take("like", _name, None, instead="")
    if not like or like in readers:
        return like
    meant = closest(like, readers.keys() - {name})
    fix = f"did you mean {meant!r}? Or " if meant else ""
    fix += f"remove this one, too: ~{reader.path}"
    reader.report(f"there is no transition {cut(like)} to be like", key="like", fix=fix)
    return ""


def _report_circles(models: Mapping[str, str], readers: Mapping[str, _Reader]) -> None:
    told: set[str] = set()
    for name in models:
        circle = [name]
        while (like := models.get(circle[-1])) and like not in circle:
            circle.append(like)
        if like == name and name not in told:
            told |= set(circle)
            what = f"like each other in a circle: {' -> '.join([*circle, name])}"
            fix = "take `like` out of one of them, and say there what it does"
            readers[name].report(what, key="like", fix=fix)


def _taking(
    spec: TransitionSpec, reader: _Reader, model: TransitionSpec, states: Collection[str]
) -> TransitionSpec:
    """A slip of the model is told there, and not of each that is like it."""
    taken = {key: getattr(model, key) for key in _LIKE if key not in reader.data}
    astray = "dest" in taken and model.dest not in (None, SAME, *states)
    if astray or NOWHERE in (spec.dest, model.dest):
        taken["dest"] = NOWHERE
    return spec._replace(**taken)


def _read_transition(name: str, reader: _Reader) -> TransitionSpec:
    reader.require("trigger", "source")
    spec = TransitionSpec(
        name=name,
        doc=reader.take("doc", _text, ""),
        trigger=reader.take("trigger", _name, ""),
        source=tuple(ANY if s == "*" else s for s in reader.names("source")),
        dest=reader.take("dest", _dest, None, instead=NOWHERE),
        conditions=reader.uses("conditions"),
        unless=reader.uses("unless"),
        before=reader.uses("before"),
        after=reader.uses("after"),
        priority=reader.take("priority", _integer, 0),
    )
    if reader.data.get("source") is None or reader.unread & {"source", "conditions", "unless"}:
        return spec._replace(dest=NOWHERE)
    return spec


class _Reader:
    """Takes values out of one mapping, which may have these ``keys``."""

    def __init__(self, data: Any, path: str, keys: Sequence[str], problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self.keys = keys
        self.data: dict[str, Any] = {}
        self.unread: set[str] = set()  # the keys with a value that is bad
        self.is_mapping = isinstance(data, Mapping)
        if self.is_mapping:
            self._fill(data)
        else:
            self.report(f"must be a mapping, not {_shown(data)}")

    def _fill(self, data: Mapping[Any, Any]) -> None:
        self.data = {key: data[key] for key in self.keys if key in data}
        for key in data:
            if key not in self.keys:
                fix = did_you_mean(str(key), self.keys)
                self.report(f"unknown key {key!r}", key=str(key), fix=fix)
                if meant := closest(str(key), self.keys):
                    self.data.setdefault(meant, data[key])

    def report(self, what: str, *, key: str = "", fix: str = "") -> None:
        path = f"{self.path}.{key}" if key else self.path
        self.problems.append(Problem(what, path=path, fix=fix))

    def require(self, *keys: str) -> None:
        for key in keys:
            if self.is_mapping and self.data.get(key) is None:
                self.report(f"has no {key!r}", fix=f"add `{key}:`")

    def take(self, key: str, convert: Callable[[Any], T], default: T, *, instead: Any = None) -> T:
        """The value of a key; ``default`` when it is absent, or ``instead`` when it is bad."""
        value = self.data.get(key)
        if value is None:
            return default
        try:
            return convert(value)
        except ValueError as error:
            told = Problem.told(str(error))
            self.report(told.what, key=key, fix=told.fix)
            self.unread.add(key)
            return default if instead is None else instead

    def names(self, key: str) -> tuple[str, ...]:
        return self.take(key, _names, ())

    def uses(self, key: str) -> tuple[Use, ...]:
        return self.take(key, lambda value: _uses(value, f"{self.path}.{key}"), ())

    def entries(self, key: str) -> list[tuple[str, Any]]:
        """The named entries of a mapping such as ``states``."""
        values: Mapping[Any, Any] = self.take(key, _entries, {})
        return [(name, values[name]) for name in values if self._is_name(key, name)]

    def _is_name(self, key: str, name: Any) -> bool:
        if name in _MEANINGS:
            what = f"{name!r} cannot be a name: it means {_MEANINGS[name]}"
            self.report(what, key=f"{key}.{name}", fix="choose another name")
            return False
        good = isinstance(name, str) and name.isidentifier()
        if not good:
            said = cut(name) if isinstance(name, str) else _shown(name)
            self.report(
                f"{said} cannot be a name",
                key=key,
                fix="use letters, digits and _; quote on, off, yes, no and null",
            )
        return good


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {cut(value)}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {_shown(value)}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"must be an integer, not {_shown(value)}")
    return value


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping, not {_shown(value)}")
    return value


def _entries(value: Any) -> Mapping[Any, Any]:
    if not _mapping(value):
        raise ValueError("must have at least one entry")
    return _mapping(value)


def _names(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(_text(name) for name in values)


def _name(value: Any) -> str:
    if value == "":
        raise ValueError("must be a name, not an empty text")
    return _text(value)


def _dest(value: Any) -> str:
    return SAME if value == "=" else _name(value)


def _worker_state(value: Any) -> WorkerState:
    try:
        return WorkerState(value)
    except ValueError:
        known = [state.value for state in WorkerState]
        raise ValueError(
            f"unknown worker state {cut(value)}; {did_you_mean(str(value), known)}"
        ) from None


def _exit_code(value: Any) -> int | str:
    if value in ("worker", "signal"):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255:
        return value
    raise ValueError(f"must be 0 to 255, `worker` or `signal`, not {_shown(value)}")


def _uses(value: Any, path: str) -> tuple[Use, ...]:
    entries = value if isinstance(value, list | tuple) else [value]
    return tuple(_use(entry, path) for entry in entries)


def _use(entry: Any, path: str) -> Use:
    if isinstance(entry, str):
        return Use(entry, path=path)
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((name, arguments),) = entry.items()
        return Use(_text(name), arguments, path=path)
    raise ValueError(f"must be a name or `name: parameters`, not {_shown(entry)}")

"""What a line of a journal must hold for its readers, and the first thing that is wrong with one.

A journal may have been edited by hand, or be of another version. Each line is held against its
shape once, where it is read, so that no reader meets a value that it cannot use. Only what readers
need is asked for; docs/journal.schema.json is the whole format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from elastic_fsm.group import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "FLAG",
    "INTEGER",
    "STATE",
    "TEXT",
    "Kind",
    "fault_of",
    "fault_of_datum",
    "fault_of_header",
    "fault_of_record",
    "maybe",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value, in words and as a predicate."""

    said: str
    fits: Callable[[Any], bool]


# No time, pid or count of ours comes near it, and calendars go that far.
_MOST = 1e11
_SHOWN = {"", *(state.value for state in WorkerState)}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_rank(name: str) -> bool:
    return re.fullmatch(r"\d{1,9}", name, re.ASCII) is not None


def maybe(kind: Kind) -> Kind:
    """The same, or null."""
    return Kind(f"null or {kind.said}", lambda value: value is None or kind.fits(value))


TEXT = Kind("a string", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
INTEGER = Kind("a whole number of a sensible size", _is_integer)
NUMBER = Kind("a number of a sensible size", _is_number)
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
RANK = Kind("a rank", _is_rank)
STATE = Kind("a worker state", lambda value: isinstance(value, str) and value in _SHOWN)

_FACTS = {
    "now": NUMBER,
    "entered_at": NUMBER,
    "attempt": INTEGER,
    "local_world_size": INTEGER,
    "alive": [INTEGER],
    "exit_codes": {RANK: INTEGER},
    "stopped": [INTEGER],
    "max_restarts": INTEGER,
    "restarts_left": INTEGER,
    "membership_restarts": INTEGER,
}
_EVENT = {"name": TEXT, "data": OBJECT, "attempt?": INTEGER, "visit?": INTEGER}
_BY_EVENT: Mapping[str, Mapping[str, Any]] = {
    "workers_started": {"pids": [INTEGER]},
    "worker_exited": {
        "local_rank": INTEGER,
        "pid": maybe(INTEGER),
        "exit_code": INTEGER,
        "stopped_by_agent": FLAG,
        "reason": TEXT,
    },
    "workers_initialized": {"ranks": [INTEGER]},
    "workers_failed": {"last_lines?": {RANK: [TEXT]}},
    "timer_expired": {
        "local_rank": INTEGER,
        "pid": maybe(INTEGER),
        "scope": TEXT,
        "after": NUMBER,
        "signal": TEXT,
    },
    "command_finished": {"exit_code?": INTEGER},
    "command_failed": {"exit_code?": INTEGER},
}
_FIELDS = {
    "seq": INTEGER,
    "time": NUMBER,
    "monotonic": NUMBER,
    "worker_state": STATE,
    "event": _EVENT,
    "facts": _FACTS,
    "verdicts": [(TEXT, TEXT, FLAG)],
    "transition": TEXT,
    "source": TEXT,
    "dest": TEXT,
    "entered": FLAG,
    "actions": [TEXT],
    "state": TEXT,
    "error": TEXT,
    "note": TEXT,
}


def _line_with(*names: str) -> Mapping[str, Any]:
    """A line that must have these fields; those of other kinds of lines may be there, too."""
    needed = {"seq", "time", "monotonic", "worker_state", *names}
    return {name if name in needed else f"{name}?": shape for name, shape in _FIELDS.items()}


_BY_OUTCOME = {
    "step": _line_with(
        "event", "facts", "verdicts", "transition", "source", "dest", "entered", "actions"
    ),
    "ignored": _line_with("event", "facts", "verdicts", "state"),
    "failed": _line_with("event", "facts", "verdicts", "state", "error"),
    "stale": _line_with("event", "facts"),
}
_NOTE = _line_with("note")
_SUMS = {
    "seq": INTEGER,
    "first_time": maybe(NUMBER),
    "last_time": maybe(NUMBER),
    "now": NUMBER,
    "state": TEXT,
    "entered_at": NUMBER,
    "visits": INTEGER,
    "worker_state": STATE,
    "restarts": INTEGER,
    "membership_restarts": INTEGER,
    "transitions": {TEXT: INTEGER},
    "seconds": {TEXT: NUMBER},
    "outcomes": {TEXT: INTEGER},
}
_HEADER = {
    "run_id": TEXT,
    "host": TEXT,
    "pid": INTEGER,
    "machine": {"states": {TEXT: maybe(OBJECT)}, "transitions": {TEXT: OBJECT}},
    "settings": OBJECT,
    "plugins": {TEXT: maybe(TEXT)},
    "part?": INTEGER,
    "carried?": _SUMS,
}


def fault_of_header(header: Mapping[str, Any]) -> str | None:
    """What is wrong with a file's first line; None for a good one."""
    return fault_of(header, _HEADER)


def fault_of_record(record: Mapping[str, Any]) -> str | None:
    """What is wrong with another line, as in ``facts.now is missing``; None for a good one."""
    if "note" in record:
        both = record.keys() & {"event", "facts", "outcome"}
        return "it is a note and an event" if both else fault_of(record, _NOTE)
    if "outcome" not in record:
        return "outcome is missing"
    outcome = record["outcome"]
    if not isinstance(outcome, str) or outcome not in _BY_OUTCOME:
        return f"outcome {outcome!r:.40} is not known here"
    return fault_of(record, _BY_OUTCOME[outcome]) or _fault_of_event(record["event"])


def _fault_of_event(event: Mapping[str, Any]) -> str | None:
    fault = _fault(event["data"], _BY_EVENT.get(event["name"], {}))
    return f"event.data{fault}" if fault else None


def fault_of_datum(event: str, name: str, value: Any) -> str | None:
    """What is wrong with one value of an event's data, as in ``is not a string``; None for a good
    one, and for one that no reader needs."""
    shapes = _BY_EVENT.get(event, {})
    shape = shapes.get(name, shapes.get(f"{name}?"))
    fault = _fault(value, shape) if shape else None
    return fault.strip() if fault else None


def fault_of(value: Any, shape: Any) -> str | None:
    """The first thing that is wrong with a value, None for a good one.

    A shape is a :class:`Kind`; ``[shape]``, a list of such; a tuple, a list of exactly these; or a
    mapping from names, where ``name?`` may be left out, or from one kind of names, to shapes.
    """
    fault = _fault(value, shape)
    return fault.removeprefix(".") if fault else None


def _fault(value: Any, shape: Any) -> str | None:
    """The way to it is put together on the way back, for a good line needs none."""
    if isinstance(shape, Kind):
        return None if shape.fits(value) else f" is not {shape.said}"
    if isinstance(shape, dict):
        return _fault_of_object(value, shape)
    if not isinstance(value, list):
        return " is not a list"
    if isinstance(shape, tuple) and len(value) != len(shape):
        return f" has not {len(shape)} values"
    shapes = shape if isinstance(shape, tuple) else repeat(shape[0])
    for index, (item, inner) in enumerate(zip(value, shapes, strict=False)):
        if fault := _fault(item, inner):
            return f"[{index}]{fault}"
    return None


def _fault_of_object(value: Any, shape: Mapping[Any, Any]) -> str | None:
    if not isinstance(value, dict):
        return " is not an object"
    for key, inner in shape.items():
        if isinstance(key, Kind):
            fault = _fault_of_names(value, key, inner)
        else:
            fault = _fault_of_name(value, key, inner)
        if fault:
            return fault
    return None


def _fault_of_name(value: Mapping[str, Any], key: str, inner: Any) -> str | None:
    name = key.removesuffix("?")
    if name not in value:
        return f".{name} is missing" if name == key else None
    fault = _fault(value[name], inner)
    return f".{name}{fault}" if fault else None


def _fault_of_names(value: Mapping[str, Any], key: Kind, inner: Any) -> str | None:
    for name, item in value.items():
        if fault := _fault(name, key) or _fault(item, inner):
            return f".{name}{fault}"
    return None

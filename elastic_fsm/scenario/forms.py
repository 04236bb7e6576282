"""The lines that a scenario file may hold, one form each.

A form is a regular expression with named groups and a name for what it describes. This table is
the whole grammar: the reader, the suggestions for misspelt lines and the documentation's list
are made from it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import parse_duration
from elastic_fsm.problems import did_you_mean
from elastic_fsm.signal_names import check_signal_name

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMS", "MOST_WORKERS", "Form", "too_many", "values_of"]

MOST_WORKERS = 10_000
"""More would be played for minutes; no machine runs so many."""

_WORD = r"\S+"
_NAME = r"[A-Za-z_]\w*"
_PLACES = {
    "TEXT": ".+",
    "DATA": ".+",
    "NAMES": rf"{_NAME}(?:\s*,\s*{_NAME})*",
    "KEY": r"[\w.@/~+]+",
}


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of line. ``usage`` has places in capitals; ``at`` says whether a time may
    (None), must (True) or must not (False) stand before it."""

    kind: str
    usage: str
    at: bool | None
    pattern: re.Pattern[str]


def _form(kind: str, usage: str, *, at: bool | None) -> Form:
    words = re.sub(r"\b[A-Z]+\b", lambda place: _group(place[0]), usage.replace(" ", r"\s+"))
    return Form(kind, usage, at, re.compile(words))


def _group(place: str) -> str:
    return f"(?P<{place}>{_PLACES.get(place, _WORD)})"


FORMS: tuple[Form, ...] = (
    _form("machine", "machine NAMES", at=False),
    _form("workers", "workers N", at=False),
    _form("max_restarts", "max_restarts N", at=False),
    _form("set", "set KEY=TEXT", at=False),
    _form("end", "end at T", at=False),
    _form("finish", "workers finish after T", at=False),
    _form("finish", "workers finish after T saving every EACH", at=False),
    _form("failures", "failures every EACH seed SEED", at=False),
    _form("failures", "failures every EACH seed SEED exits CODE", at=False),
    _form("failures", "failures every EACH seed SEED by SIGNAL", at=False),
    _form("changes", "membership changes every EACH seed SEED", at=False),
    _form("exits", "worker N exits CODE", at=True),
    _form("exits", "worker N dies of SIGNAL", at=True),
    _form("membership", "membership changes", at=True),
    _form("membership", "membership changes: TEXT", at=True),
    _form("signal", "signal SIGNAL", at=True),
    _form("conduct", "worker N ignores signals", at=None),
    _form("conduct", "worker N takes T to stop", at=None),
    _form("conduct", "worker N takes T to stop and exits CODE", at=None),
    _form("stuck", "worker N survives everything", at=None),
    _form("cannot_start", "worker N cannot start", at=None),
    _form("on_signal", "workers finish T after SIGNAL", at=None),
    _form("command", "command NAME exits CODE", at=None),
    _form("command", "command NAME takes T", at=None),
    _form("command", "command NAME takes T and exits CODE", at=None),
    _form("start", "start takes T", at=None),
    _form("start", "start never ends", at=None),
    _form("waits", "rendezvous waits", at=None),
    _form("answers", "rendezvous answers", at=None),
    _form("completes", "rendezvous completes", at=True),
    _form("answer", "rendezvous says NAME", at=True),
    _form("event", "event NAME", at=True),
    _form("event", "event NAME DATA", at=True),
)


def _seconds(text: str) -> float:
    seconds = parse_duration(text)
    assert seconds is not None  # only None gives None
    return seconds


def _distance(text: str) -> float:
    seconds = _seconds(text)
    if seconds == 0:
        raise ValueError("this would happen without end at one moment: give more than 0 s")
    return seconds


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _code(text: str) -> int:
    if not text.isdecimal() or int(text) > 255:
        raise ValueError(f"{text!r} is not an exit code: 0 to 255")
    return int(text)


def _signal(text: str) -> str:
    check_signal_name(text)
    return text


def _data(text: str) -> dict[str, Any]:
    """``exit_code=3 stopped_by_agent=true reason=lost``: numbers, true and false, text."""
    pairs = [word.partition("=") for word in shlex.split(text)]
    if not all(equals and key.isidentifier() for key, equals, _ in pairs):
        raise ValueError(f"{text!r} is not a list of name=value")
    return {key: _value(value) for key, _, value in pairs}


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


ANSWERS = ("spare_assigned", "run_finished", "rendezvous_failed", "barrier_passed")
"""What a rendezvous may answer, beside that it completes."""

_INTEGER = re.compile(r"-?\d+")
_DECIMAL = re.compile(r"-?\d+\.\d+")
_CONVERT: dict[str, Callable[[str], Any]] = {
    "T": _seconds,
    "EACH": _distance,
    "N": _number,
    "SEED": _number,
    "CODE": _code,
    "SIGNAL": _signal,
    "DATA": _data,
}


def values_of(form: Form, line: str) -> dict[str, Any] | None:
    """What stands in the places of a form; None when the line is of another form.

    Raises ``ValueError`` when the line has this form, and something else than it should in one
    of its places.
    """
    found = form.pattern.fullmatch(line)
    if found is None:
        return None
    values = {place: _CONVERT.get(place, str)(text) for place, text in found.groupdict().items()}
    if form.kind == "workers" and values["N"] > MOST_WORKERS:
        raise ValueError(too_many(values["N"]))
    if form.kind == "answer" and values["NAME"] not in ANSWERS:
        raise ValueError(f"no rendezvous says {values['NAME']!r}; {_answer_meant(values['NAME'])}")
    return values


def too_many(workers: int) -> str:
    """What is wrong with so many workers."""
    return f"{workers} workers are too many to be played; {MOST_WORKERS} at most"


def _answer_meant(name: str) -> str:
    if name == "rendezvous_completed":
        return "write `rendezvous completes`"
    return did_you_mean(name, ANSWERS)

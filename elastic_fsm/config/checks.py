"""Checks and puts in order the plain values of a run; knows nothing of YAML or Hydra.

Types were checked by the schema. Here are the ranges, the choices and the little languages:
durations become seconds, signals get their full name, and everything that is wrong is said at
once. ``machine`` is not looked at: its checks are the declaration's own.
"""

from __future__ import annotations

import os
import re
from dataclasses import is_dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any

from elastic_fsm.config.hints import expected
from elastic_fsm.config.schema import RunConfig, duration_fields, field_types
from elastic_fsm.config.signals import NO_REQUESTS, NOT_HEARD, refusal, signal_name
from elastic_fsm.config.tree import dotted
from elastic_fsm.durations import parse_duration
from elastic_fsm.problems import Problem, cut, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["check", "fill_in", "shapes"]

_CHOICES = {
    "exit_code": ("final", "torchrun"),
    "logs.mode": ("tee", "files", "console", "terminal", "torchrun"),
}
_MINIMUM = {
    "spec.max_restarts": 0,
    "restart.factor": 1,
    "logs.tail_lines": 0,
    "spec.master_port": 0,
}
_ABOVE_ZERO = ("spec.monitor_interval",)
# A wait that must end; at the others, null stands for "never" or "no limit".
_FINITE = {"restart.delay", "stop.window"}
_POSITIVE = {"stop.kill_timeout"}
_SHAPE: dict[str, type] = {"list": list, "dict": dict}
_ENTRY: dict[str, type] = {"list[int]": int, "list[str]": str}
_LONGEST_NAME = 255
_MOST_WORKERS = 2**22  # Linux has no more process numbers
# What moves a cursor or ends a line; NUL is refused everywhere.
_CONTROLS = re.compile(r"[\x01-\x1f\x7f-\x9f\u2028\u2029]")
_PREFIX_WORDS = ("role", "rank", "local_rank", "host", "node_rank")


def check(values: dict[str, Any]) -> list[Problem]:
    """All findings; ``values`` is changed in place to its normal form."""
    parts: tuple[Callable[[dict[str, Any]], Iterator[Problem]], ...] = (
        _texts,
        _folders,
        _durations,
        _signals,
        _choices,
        _minima,
        _run,
        _workers,
        _environment,
        _logs,
    )
    return [problem for part in parts for problem in part(values)]


def shapes(values: dict[str, Any]) -> list[Problem]:
    """Lists and mappings with something else in their place, or in that of an entry: OmegaConf
    lets pass what a reference leads to, and any list or mapping as an entry of a list."""
    return [
        Problem(f"{shown} does not fit", path=at, fix=f"it takes {expected(at)}")
        for path, kind in field_types().items()
        for at, shown in _misfits(path, kind, _get(values, path))
    ]


def _misfits(path: str, kind: str, value: Any) -> Iterator[tuple[str, str]]:
    """Path and text of each value that is not of its ``kind``."""
    wanted = kind.partition("[")[0]
    if wanted not in _SHAPE or (value is None and "None" in kind):
        return
    fits = isinstance(value, _SHAPE[wanted])
    if not fits:
        yield path, _shown(value)
    elif isinstance(value, list):
        one = _ENTRY.get(kind.removesuffix(" | None"), object)
        yield from (
            (f"{path}.{number}", cut(entry))
            for number, entry in enumerate(value)
            if not isinstance(entry, one)
        )
    elif path == "spec.worker_env":
        for rank, env in value.items():
            if not isinstance(rank, int) or not isinstance(env, dict):
                yield dotted(path, rank), cut(env)


def fill_in(values: dict[str, Any], path: str) -> None:
    """The default in the place of a value that is wrong, so that the others can be checked."""
    group, *rest = path.split(".")[:2]
    default: Any = getattr(RunConfig(), group, None)
    if group == "machine" or default is None:
        return
    if not is_dataclass(default):
        values[group] = default
    elif not isinstance(values.get(group), dict):
        values[group] = dict(vars(default))
    elif rest and hasattr(default, rest[0]):
        values[group][rest[0]] = getattr(default, rest[0])


def _shown(value: Any) -> str:
    """A value in a sentence; one that is large is not printed."""
    return f"a {type(value).__name__}" if isinstance(value, dict) else cut(value)


def _get(values: dict[str, Any], path: str) -> Any:
    group, _, name = path.rpartition(".")
    return (values[group] if group else values)[name]


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    group, _, name = path.rpartition(".")
    (values[group] if group else values)[name] = value


def _texts(value: Any, path: str = "") -> Iterator[Problem]:
    """Text that no command, variable or path can hold, wherever it stands: names included."""
    if isinstance(value, dict):
        for key, inner in value.items():
            here = dotted(path, key)
            yield from _texts(key, here)
            yield from _texts(inner, here)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{path}.{index}")
    elif isinstance(value, str) and ("\0" in value or not _is_encodable(value)):
        what = "NUL" if "\0" in value else "half a character"
        what = f"{cut(value)} holds {what}, which no command, variable or path can"
        yield Problem(what, path=path, fix="take it out")


def _folders(values: dict[str, Any]) -> Iterator[Problem]:
    """A leading ``~/`` is the home directory; what is left must name a folder."""
    for path in ("run_dir", "spec.cwd"):
        given = _get(values, path)
        if given is None:
            continue
        if given == "~" or given.startswith("~/"):
            _set(values, path, os.path.expanduser(given))
        if not given.strip():
            yield Problem(f"{given!r} is no folder", path=path, fix="'.' is the current one")
        elif _get(values, path).startswith("~/"):
            yield Problem("nobody knows the home directory", path=path, fix="set HOME, or write it")


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _durations(values: dict[str, Any]) -> Iterator[Problem]:
    for path in duration_fields():
        group, name = path.split(".")
        try:
            seconds = values[group][name] = parse_duration(values[group][name])
        except ValueError:
            shown = _shown(values[group][name])
            fix = "give seconds, or 500ms, 30s, 5m, 2h"
            yield Problem(f"{shown} is not a duration", path=path, fix=fix)
            continue
        if seconds is None and path in _FINITE:
            yield Problem("must not be null", path=path, fix="0 is no wait at all")
        if seconds == 0 and path in _POSITIVE:
            fix = "give it a moment, such as 5s: even SIGKILL takes one"
            yield Problem("must be more than 0", path=path, fix=fix)


def _signals(values: dict[str, Any]) -> Iterator[Problem]:
    stop = values["stop"]
    names: list[str] = []
    for index, given in enumerate(stop["signals"]):
        if problem := refusal(given, f"stop.signals.{index}", NOT_HEARD):
            yield problem
        else:
            names.append(signal_name(given))
    stop["signals"] = list(dict.fromkeys(names))
    if problem := refusal(stop["signal"], "stop.signal", NO_REQUESTS):
        yield problem
    else:
        stop["signal"] = signal_name(stop["signal"])


def _choices(values: dict[str, Any]) -> Iterator[Problem]:
    for path, known in _CHOICES.items():
        if (given := _get(values, path)) not in known:
            hint = f"one of {', '.join(known)}"
            yield Problem(f"{cut(given)} is none of its values", path=path, fix=hint)


def _minima(values: dict[str, Any]) -> Iterator[Problem]:
    for path, least in _MINIMUM.items():
        given = _get(values, path)
        if given is not None and not given >= least:
            yield Problem(f"{given} is too small", path=path, fix=f"at least {least}")
    for path in _ABOVE_ZERO:
        if not _get(values, path) > 0:
            yield Problem(f"{_get(values, path)} is too small", path=path, fix="more than 0")


def _run(values: dict[str, Any]) -> Iterator[Problem]:
    run_id = values["run_id"]
    if run_id is not None and (not run_id.strip() or run_id in (".", "..", "latest")):
        fix = "leave it out for a new one, or give a name such as nightly-3"
        yield Problem(f"{run_id!r} cannot name a run", path="run_id", fix=fix)
    elif run_id is not None and len(run_id.encode(errors="replace")) > _LONGEST_NAME:
        fix = f"it names a folder, which may have {_LONGEST_NAME} bytes"
        yield Problem(f"{cut(run_id)} is too long", path="run_id", fix=fix)
    elif run_id is not None and "/" in run_id:
        fix = "it names one folder; choose the place with run_dir"
        yield Problem(f"{run_id!r} has a slash in it", path="run_id", fix=fix)
    elif run_id is not None and _CONTROLS.search(run_id):
        fix = "it stands in lines that are read: leave tabs, ends of lines and the like out"
        yield Problem(f"{run_id!r} has control characters in it", path="run_id", fix=fix)


def _workers(values: dict[str, Any]) -> Iterator[Problem]:
    spec = values["spec"]
    size = spec["local_world_size"]
    number = isinstance(size, int) and not isinstance(size, bool)
    if size != "auto" and not (number and 1 <= size <= _MOST_WORKERS):
        fix = f"at least 1, or auto: one worker for each GPU; at most {_MOST_WORKERS}"
        what = f"{cut(size)} workers cannot be started"
        yield Problem(what, path="spec.local_world_size", fix=fix)
        number = False
    if spec["master_port"] is not None and spec["master_port"] > 65535:
        fix = "a port is at most 65535"
        yield Problem(f"{spec['master_port']} is too large", path="spec.master_port", fix=fix)
    ranks = {"spec.stdin": spec["stdin"]} if spec["stdin"] is not None else {}
    ranks |= {f"spec.worker_env.{rank}": rank for rank in spec["worker_env"]}
    for path, rank in ranks.items():
        if rank < 0 or (number and rank >= size):
            fix = f"local ranks go from 0 to {size - 1}" if number else "local ranks start at 0"
            yield Problem(f"there is no local rank {rank}", path=path, fix=fix)


def _environment(values: dict[str, Any]) -> Iterator[Problem]:
    spec = values["spec"]
    tables = {"spec.env": spec["env"]}
    tables |= {f"spec.worker_env.{rank}": env or {} for rank, env in spec["worker_env"].items()}
    for path, table in tables.items():
        for name in table:
            if not name or "=" in name:
                fix = "a name is not empty and has no '=' in it"
                what = f"{name!r} cannot name a variable"
                yield Problem(what, path=f"{path}.{name}", fix=fix)


def _last_rank(values: dict[str, Any]) -> int | None:
    """Of all nodes; None where it depends on who comes."""
    size = values["spec"]["local_world_size"]
    alone = values["rendezvous"]["name"] == "standalone"
    return size - 1 if alone and isinstance(size, int) and size >= 1 else None


def _logs(values: dict[str, Any]) -> Iterator[Problem]:
    logs = values["logs"]
    most = _last_rank(values)
    for rank in logs["console_ranks"] or []:
        if rank < 0 or (most is not None and rank > most):
            fix = "ranks go from 0" + ("" if most is None else f" to {most}")
            yield Problem(f"there is no rank {rank}", path="logs.console_ranks", fix=fix)
    try:
        named = [name for _, name, _, _ in Formatter().parse(logs["prefix"]) if name is not None]
    except ValueError as error:
        yield Problem(f"{error}", path="logs.prefix", fix="a brace itself is written {{ or }}")
        return
    for name in named:
        if name not in _PREFIX_WORDS:
            hint = did_you_mean(name, _PREFIX_WORDS)
            yield Problem(f"{{{name}}} has no meaning", path="logs.prefix", fix=hint)

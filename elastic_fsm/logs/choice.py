"""``logs=torchrun``: what is wrong with its settings, and the ``LogsSpecs`` that they describe."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import BadInput, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import EntryPoint

    from elastic_fsm.logs.specs import LogsSpecs

__all__ = ["check_logs", "make_logs_specs"]

_DEFAULT = "default"
_ANOTHER_FOLDER = "choose another folder: logs.log_dir=PATH"
_UNSET: dict[str, Any] = {
    "redirects": "0",
    "tee": "0",
    "log_dir": None,
    "local_ranks_filter": None,
    "stdout_filters": [],
    "stderr_filters": [],
    "specs": None,
}


def check_logs(logs: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the keys of the group ``logs`` that are for mode ``torchrun``."""
    if logs["mode"] != "torchrun":
        yield from _check_unused(logs)
        return
    yield from _check_streams(logs)
    if logs["log_dir"] and os.path.isfile(logs["log_dir"]):
        what = f"{logs['log_dir']!r} is a file, not a folder"
        yield Problem(what, path="logs.log_dir", fix=_ANOTHER_FOLDER)
    if logs["specs"] not in (None, _DEFAULT):
        yield from _check_specs(logs["specs"])


def _check_unused(logs: Mapping[str, Any]) -> Iterator[Problem]:
    for key, unset in _UNSET.items():
        if logs[key] != unset:
            what = f"logs.mode={logs['mode']} has no use for it"
            yield Problem(what, path=f"logs.{key}", fix="choose logs=torchrun, or take it out")


def _check_streams(logs: Mapping[str, Any]) -> Iterator[Problem]:
    from elastic_fsm.logs.specs import Std  # few runs need it

    for key in ("redirects", "tee"):
        try:
            Std.from_str(logs[key])
        except ValueError as error:
            yield Problem.told(str(error), path=f"logs.{key}")


def _check_specs(name: str) -> Iterator[Problem]:
    known = [_DEFAULT, *(plugin.name for plugin in _plugins())]
    if name not in known:
        what = f"there are no logs specs called {name!r}"
        yield Problem(what, path="logs.specs", fix=did_you_mean(name, known))


def make_logs_specs(logs: Mapping[str, Any]) -> LogsSpecs:
    """Where the workers' output goes. Raises :class:`BadInput` for a folder that cannot be."""
    ranks, kind = logs["local_ranks_filter"], _kind(logs["specs"])
    streams = _streams_of(kind)
    try:
        made: LogsSpecs = kind(
            log_dir=logs["log_dir"],
            redirects=streams.from_str(logs["redirects"]),
            tee=streams.from_str(logs["tee"]),
            local_ranks_filter=None if ranks is None else set(ranks),
        )
    except OSError as error:
        what = f"cannot be used: {error}"
        raise BadInput.of(what, path="logs.log_dir", fix=_ANOTHER_FOLDER) from error
    return made


def _kind(name: str | None) -> Any:
    if name in (None, _DEFAULT):  # torch installs its own under this name
        from elastic_fsm.logs.specs import DefaultLogsSpecs

        return DefaultLogsSpecs
    if problems := list(_check_specs(str(name))):
        raise BadInput(problems)
    return next(plugin for plugin in _plugins() if plugin.name == name).load()


def _streams_of(kind: Any) -> Any:
    """A plug-in that is made of torch's class knows torch's ``Std`` only."""
    if any(base.__module__.startswith("torch.") for base in kind.__mro__):
        return sys.modules["torch.distributed.elastic.multiprocessing"].Std
    from elastic_fsm.logs.specs import Std

    return Std


def _plugins() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to load

    return entry_points(group="torchrun.logs_specs")

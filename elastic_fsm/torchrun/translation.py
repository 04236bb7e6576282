"""torchrun's options in words of ours: a choice for two groups, values, and the workers' command.

Where the two differ ``docs/from_torchrun.md`` says so. What our own checks find is left to them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING, Any

from elastic_fsm.config.schema import RunConfig
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem
from elastic_fsm.torchrun.command import command_of
from elastic_fsm.torchrun.counts import determine_local_world_size
from elastic_fsm.torchrun.nodes import nodes_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

__all__ = ["Translation", "local_ranks", "shutdown_timeout", "translate"]

_SHUTDOWN_TIMEOUT = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_PREFIX = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"


@dataclass(frozen=True, slots=True)
class Translation:
    """``choices`` are options of groups, ``values`` those that are not our defaults, by their
    dotted names; ``module``: the command is a module's name and its arguments."""

    choices: dict[str, str]
    values: dict[str, Any]
    command: list[str]
    module: bool


def translate(args: Namespace) -> Translation:
    """What to run. Raises :class:`BadInput` with everything that is wrong with the options."""
    problems: list[Problem] = []
    values: dict[str, Any] = {"exit_code": "torchrun"}
    parts: tuple[Callable[[Namespace], Iterator[tuple[str, Any]]], ...] = (
        nodes_of,
        _workers,
        _stopping,
        _logs,
    )
    for part in parts:
        try:
            values.update(part(args))
        except BadInput as error:
            problems += error.problems
    try:
        command, module = command_of(args)
    except BadInput as error:
        problems += error.problems
    if problems:
        raise BadInput(problems)
    choices = {"rendezvous": values.pop("rendezvous", "standalone"), "logs": "torchrun"}
    own = {key: value for key, value in values.items() if value != _default(key)}
    return Translation(choices, own, command, module)


def _default(key: str) -> Any:
    group, _, name = key.rpartition(".")
    default = RunConfig()
    return getattr(getattr(default, group) if group else default, name)


def _workers(args: Namespace) -> Iterator[tuple[str, Any]]:
    if args.numa_binding is not None:
        raise _bad(
            "--numa-binding is not offered",
            "bind the workers yourself: --no-python numactl --cpunodebind='${local_rank}' "
            "python train.py",
        )
    try:
        yield "spec.local_world_size", determine_local_world_size(args.nproc_per_node)
    except ValueError as error:
        problem = Problem.told(str(error), path="--nproc-per-node", where=COMMAND_LINE)
        raise BadInput([problem]) from None
    yield "spec.max_restarts", args.max_restarts
    yield "spec.role", args.role
    yield "spec.local_addr", args.local_addr
    yield "spec.virtual_local_rank", args.virtual_local_rank
    yield "spec.monitor_interval", args.monitor_interval
    yield "spec.event_log_handler", args.event_log_handler
    yield "spec.stdin", 0  # torchrun's workers all read ours, and take each other's lines


def _stopping(args: Namespace) -> Iterator[tuple[str, Any]]:
    yield "stop.signals", [name.strip() for name in args.signals_to_handle.split(",")]
    seconds = shutdown_timeout(args)
    yield "stop.grace", int(seconds) if seconds.is_integer() else seconds


def shutdown_timeout(args: Namespace) -> float:
    """Seconds, as given or as the environment says. Raises :class:`BadInput` for other text."""
    if args.shutdown_timeout is not None:
        return float(args.shutdown_timeout)
    text = os.environ.get(_SHUTDOWN_TIMEOUT, "30")
    try:
        return float(text)
    except ValueError:
        what = f"{text!r} is no number of seconds"
        raise BadInput.of(what, where=_SHUTDOWN_TIMEOUT, fix="such as 30") from None


def _logs(args: Namespace) -> Iterator[tuple[str, Any]]:
    yield "logs.redirects", args.redirects
    yield "logs.tee", args.tee
    yield "logs.log_dir", args.log_dir or None
    yield "logs.local_ranks_filter", local_ranks(args.local_ranks_filter)
    yield "logs.stdout_filters", args.duplicate_stdout_filters
    yield "logs.stderr_filters", args.duplicate_stderr_filters
    yield "logs.specs", args.logs_specs
    if _PREFIX in os.environ:
        yield "logs.prefix", _prefix(os.environ[_PREFIX])


def local_ranks(text: str) -> list[int] | None:
    """``0,2`` as numbers; None where nothing is given. Raises :class:`BadInput`."""
    if not text:
        return None
    if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        raise _bad(f"--local-ranks-filter: {text!r} is no list of ranks", "write 0,1,2")
    return sorted({int(rank) for rank in text.split(",")})


def _prefix(template: str) -> str:
    """torch's template as ours: ``${role_name}`` is ``{role}``, and braces stand for themselves."""
    doubled = template.replace("{", "{{").replace("}", "}}")
    doubled = re.sub(r"\$\{\{(\w+)\}\}", r"${\1}", doubled)
    names = {"role_name": "{role}", "rank": "{rank}", "local_rank": "{local_rank}"}
    text = Template(doubled).safe_substitute(names)
    return re.sub(r"\$\{(\w+)\}", r"${{\1}}", text)  # those that torch does not know stay


def _bad(what: str, fix: str) -> BadInput:
    return BadInput.of(what, where=COMMAND_LINE, fix=fix)

"""Says in our words what Hydra and OmegaConf found wrong.

Their exceptions name the class of a node and the line of a grammar; a user needs the key, what
was there, and what to write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    GrammarParseError,
    InterpolationKeyError,
    InterpolationResolutionError,
    InterpolationValidationError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    UnsupportedInterpolationType,
)

from elastic_fsm.config.hints import GROUPS, expected, is_known, takes_no_mapping, unknown_key
from elastic_fsm.config.verbatim import decode
from elastic_fsm.problems import COMMAND_LINE, Problem, cut, did_you_mean

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

    from elastic_fsm.config.tree import Path

__all__ = [
    "UNFIT",
    "WHOLE_LIST",
    "leaf_problem",
    "machine_problem",
    "merge_problem",
    "no_machine",
    "override_problem",
    "package_problem",
    "reason",
    "resolve_problem",
]

UNFIT = (OmegaConfBaseException, OverflowError)
"""What OmegaConf raises for a value that does not fit; the latter for a whole number, in the place
of a float, that is larger than any."""

_LONG = 160  # a message may hold a whole dumped configuration
# How OmegaConf quotes the reference that it followed, and how it tells of one without an end.
_REFERENCE = re.compile(r"'\$\{.*?\}'")
_CIRCLE = re.compile(r"(Recursive interpolation|Interpolation to parent node) detected")
WHOLE_LIST = "give the whole list, as key=[a, b]"


def leaf_problem(error: Exception, path: Path, value: Any, *, where: str = "") -> Problem:
    """A value of a file, a program or a mapping on the command line; see also merge_problem."""
    of_rank = path[:2] == ("spec", "worker_env") and len(path) > 2
    if of_rank and not isinstance(path[2], int):
        return _rank_problem(path[2])
    if any("." in str(key) for key in path):
        return _dotted_problem(path)
    return merge_problem(error, ".".join(map(str, path)), value, where=where)


def merge_problem(error: Exception, path: str, value: Any, *, where: str = "") -> Problem:
    """A value that does not fit, or a key that is not there."""
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and not is_known(path):
        text = str(decode(value)) if isinstance(value, str | int | float) else ""
        return unknown_key(path, value=text, where=where)
    if isinstance(error, GrammarParseError):
        return _no_reference(path, where)
    parts = path.split(".")
    for head in (".".join(parts[:depth]) for depth in range(1, len(parts))):
        if takes_no_mapping(head):
            fix = f"it takes {expected(head)}"
            return Problem("a mapping does not fit", path=head, where=where, fix=fix)
    fitting = expected(path)
    if path in GROUPS and isinstance(value, str) and re.fullmatch(r"[A-Za-z_]\w*", value):
        what = f"{cut(value)} may be a choice, and here stands what the group holds"
        fix = f"choose in the list of defaults, `defaults: [{{{path}: {value}}}]`"
        return Problem(what, path, f"{fix}; or give a mapping, such as {{key: value}}", where)
    if not fitting or (isinstance(value, dict) and "mapping" in fitting):
        return Problem(reason(error), path=path, where=where)
    shown = "null" if value is None else cut(decode(value))
    return Problem(f"{shown} does not fit", path=path, where=where, fix=f"it takes {fitting}")


def package_problem(package: str, where: str) -> Problem:
    """A file whose keys would stand in a place that there is not: in its own group's name."""
    what = f"its keys stand under {package!r}, and there is no such key"
    fix = "to set values of the whole run, begin the file with  # @package _global_"
    return Problem(what, where=where, fix=fix)


def no_machine(where: str) -> Problem:
    """The lists of defaults, of which the first is the job file's, end with no machine at all."""
    fix = "name one:  defaults: [{machine: elastic}]"
    return Problem("is not chosen: its entry is empty", path="machine", where=where, fix=fix)


def _rank_problem(rank: object) -> Problem:
    """A key of ``spec.worker_env`` that is no number."""
    fix = "give the worker's number, as in {0: {NAME: text}}"
    return Problem(f"{cut(rank)} is no local rank", path=f"spec.worker_env.{rank}", fix=fix)


def _no_reference(path: str, where: str = "") -> Problem:
    """``${..}``: what OmegaConf's grammar says of it names the parts of the grammar."""
    fix = r"a reference is written as ${spec.role}, the characters themselves as \${"
    return Problem("holds a reference that cannot be read", path=path, where=where, fix=fix)


def _dotted_problem(path: Path) -> Problem:
    """``spec.max_restarts: 2`` in a file: right on a command line, one strange key in YAML."""
    *above, last = ".".join(map(str, path)).split(".")
    written = "".join(f"{{{key}: " if depth else f"{key}: " for depth, key in enumerate(above))
    closing = "}" * len(above)
    what = "dots do not nest in a file; there is no such key"
    fix = f"write it as  {written}{{{last}: …{closing}"
    return Problem(what, path=".".join(map(str, path)), fix=fix)


def override_problem(error: Exception, override: Override) -> Problem:
    """An override that Hydra read and could not apply."""
    key = override.key_or_group
    if override.is_delete():
        return Problem(
            "there is nothing to remove", path=key, where=COMMAND_LINE, fix="leave it out"
        )
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if "index out of range" in str(cause):
        return Problem("the list has no such entry", path=key, where=COMMAND_LINE, fix=WHOLE_LIST)
    if override.is_add() and not isinstance(cause, OmegaConfBaseException):
        return Problem("has a value already", path=key, where=COMMAND_LINE, fix="leave the + out")
    return merge_problem(cause, key, override.value(), where=COMMAND_LINE)


def machine_problem(error: LookupError, override: Override, place: str) -> Problem:
    """A change to the machine at a place that it does not have; ``place`` is where what is named
    stands in a machine in list form, else the same as the override says."""
    key = override.key_or_group
    name = key.rpartition(".")[2]
    if place != key:
        what = "the machine is in list form, whose entries have numbers and no names"
        whole = "give the whole list, or write it as a mapping"
        fix = whole if override.is_delete() else f"say {place}=…"
        return Problem(what, path=key, where=COMMAND_LINE, fix=fix)
    if not override.is_delete():
        what = "there is no such place in the machine"
        return Problem(what, path=key, where=COMMAND_LINE, fix=WHOLE_LIST)
    known = error.args[0]
    fix = did_you_mean(name, known) if known else "nothing stands at that place"
    return Problem(f"there is no {name!r} to remove", path=key, where=COMMAND_LINE, fix=fix)


def resolve_problem(error: Exception, path: str) -> Problem:
    """A value that cannot be worked out: ``???``, or a reference to nothing."""
    if isinstance(error, GrammarParseError):
        return _no_reference(path)
    if isinstance(error, MissingMandatoryValue):
        return Problem("has no value", path=path, fix=f"give it one: {path}=…")
    if isinstance(error, InterpolationKeyError):
        fix = "a reference names a key of the run from its root, as ${spec.role}"
        return Problem(reason(error), path=path, fix=fix)
    if isinstance(error, UnsupportedInterpolationType):
        return Problem(reason(error), path=path, fix="known: ${oc.env:NAME}, ${now:%Y-%m-%d}")
    fitting = expected(path)
    fix = f"it takes {fitting}" if fitting else "give it a value"
    if isinstance(error, InterpolationValidationError | OverflowError):
        reference = _REFERENCE.search(str(error))
        named = f"{reference[0]} leads" if reference else "the reference leads"
        return Problem(f"{named} to what does not fit", path=path, fix=fix)
    if isinstance(error, InterpolationResolutionError) and _CIRCLE.match(str(error)):
        what = "goes in a circle: it refers to itself, or to what it stands in"
        return Problem(what, path=path, fix=fix)
    return Problem(reason(error), path=path)


def reason(error: Exception) -> str:
    """The first line of a message of OmegaConf's or Hydra's, without the names of its classes."""
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    short = first.rpartition(" raised while resolving interpolation: ")[2] or first
    short = short.replace("ListConfig", "list").replace("DictConfig", "mapping")
    return short if len(short) <= _LONG else f"{short[:_LONG]}…"

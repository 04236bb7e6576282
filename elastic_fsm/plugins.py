"""Conditions, actions and delays of the user's own: found, imported, and their errors told.

A module named under ``plugins:`` is looked for among what is installed, then beside the job file
and in the current folder; those come last, so that a file that happens to stand there hides
nothing. Installed packages may offer rules by an entry point of the group ``elastic_fsm.rules``
(a module, or one marked function); they are looked through only when a declaration uses a name
that nobody knows yet, since a look through all packages costs each start several milliseconds.

Whatever goes wrong while a module is imported is the user's to mend, and is told as a problem
with the place in the user's file, never as a traceback through ours.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm import actions, conditions
from elastic_fsm.problems import BadInput, Problem, cut, did_you_mean, error_text
from elastic_fsm.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

__all__ = ["GROUP", "rules_for"]

GROUP = "elastic_fsm.rules"
"""The group of entry points by which a package offers rules."""


def rules_for(names: Sequence[str], folders: Sequence[Path] = ()) -> Registry:
    """Our own rules and those of the named modules; the current folder is looked into too.

    Raises :class:`BadInput` with what is wrong with each of the modules.
    """
    registry = Registry([conditions, actions], installed=_installed)
    places = list(dict.fromkeys(str(folder.absolute()) for folder in (*folders, Path())))
    problems: list[Problem] = []
    with _at_the_end_of_the_path(places):
        for name in names:
            try:
                _add(registry, name, places)
            except BadInput as error:
                problems += error.problems
    if problems:
        raise BadInput(problems)
    return registry


@contextmanager
def _at_the_end_of_the_path(places: list[str]) -> Iterator[None]:
    before = list(sys.path)
    sys.path += places
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def _add(registry: Registry, name: str, places: Sequence[str]) -> None:
    if "/" in name or not all(name.split(".")):
        fix = "write it as in an import: my_rules or pkg.rules; the file stands beside the job file"
        raise BadInput.of(f"{cut(name)} names no module", path="plugins", fix=fix)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _unusable(name, error, places) from error  # it imports something that is missing
        raise BadInput.of(
            f"there is no module {name!r}", path="plugins", fix=_where_it_could_be(name, places)
        ) from error
    except (Exception, SystemExit) as error:
        raise _unusable(name, error, places) from error
    try:
        found = registry.add_module(module)
    except ValueError as error:  # two rules of one name
        fix = "rename yours"
        raise BadInput.of(str(error), path="plugins", where=_file(module), fix=fix) from error
    if not found:
        fix = "mark its functions with @condition, @action or @delay of elastic_fsm"
        what = f"the plugin {name!r} has no rules in it"
        raise BadInput.of(what, path="plugins", where=_file(module), fix=fix)


def _file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or ""


def _where_it_could_be(name: str, places: Sequence[str]) -> str:
    beside = [path.stem for place in places for path in Path(place).glob("*.py")]
    looked = f"looked in {', '.join(places)}, and among what is installed"
    hint = did_you_mean(name, beside)
    return f"{hint} {looked}" if hint.startswith("did") else looked


def _unusable(name: str, error: BaseException, places: Sequence[str]) -> BadInput:
    what = f"the plugin {name!r} cannot be used: {error_text(error)}"
    return BadInput.of(what, path="plugins", where=_place(error, places))


def _place(error: BaseException, places: Sequence[str]) -> str:
    """The line of the user's that the error came from: of syntax, or the last one that ran."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if any(Path(f.filename).is_relative_to(place) for place in places)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _installed() -> Iterator[object]:
    """The actions of the coarse machine, and what installed packages offer."""
    from importlib.metadata import entry_points

    from elastic_fsm.server import blocking

    yield blocking
    for point in entry_points(group=GROUP):
        try:
            yield point.load()
        except (Exception, SystemExit) as error:
            package = point.dist.name if point.dist else "an installed package"
            what = f"the rules {point.name!r} of {package} cannot be used"
            raise BadInput.of(f"{what}: {error_text(error)}") from error

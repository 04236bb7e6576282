"""Says which list of defaults is wrong, and how; or that a word of the command line is.

Hydra's errors name the file in one of several ways, or not at all.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from hydra.errors import MissingConfigException

from elastic_fsm.config.failures import override_problem, reason
from elastic_fsm.config.sources import JOB, UserSource, options, source_of
from elastic_fsm.config.words import no_option
from elastic_fsm.problems import COMMAND_LINE, Problem, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hydra._internal.config_repository import CachingConfigRepository
    from hydra.core.override_parser.types import Override

__all__ = ["defaults_problem"]

_FILE = re.compile(r"\b[Ii]n '?([^\s':,]+)")
# Of a choice that was typed: what a file says begins with its name.
_CHOICE = re.compile(
    r"Could not (?:override|delete) '([^'=@]+)|Multiple values for ([^\s@]+)\."
    r"|([^\s@]+) appears more than once"
)
_REFERENCE = re.compile(r"\$\{.*?\}")


def defaults_problem(
    error: Exception, repo: CachingConfigRepository, primary: str, typed: Sequence[Override]
) -> Problem:
    """The finding for what Hydra could not make of the lists of defaults.

    ``primary`` is the file where it began, ``typed`` are the words of the command line.
    """
    if isinstance(error, RecursionError):
        return _circle(repo, primary)
    if isinstance(error, MissingConfigException):
        return _missing_file(error, repo, typed)
    what = reason(error)
    if choice := _CHOICE.match(what):
        for override in typed:
            if override.key_or_group in choice.groups():
                return _choice_problem(error, override)
    named = [name for name in _FILE.findall(what) if repo.config_exists(name)]
    where = _shown(repo, named[0] if named else primary)
    for name in named:
        what = what.replace(name, _shown(repo, name))
    if reference := _REFERENCE.search(what):
        where = _line_naming(reference[0], _read(repo), repo) or where
    fix = "mend the list under `defaults` there"
    return Problem(what, path="defaults", where=where, fix=fix)


def _shown(repo: CachingConfigRepository, name: str) -> str:
    return source_of(repo, name).file_of(name)[1]


def _read(repo: CachingConfigRepository) -> list[str]:
    """The user's files that Hydra has read so far."""
    users = [source for source in repo.get_sources() if isinstance(source, UserSource)]
    return [name for source in users for name in source.values]


def _circle(repo: CachingConfigRepository, primary: str) -> Problem:
    """Nobody says where it began: it is among the files that were read."""
    names = [_shown(repo, name) for name in _read(repo) if name != primary]
    among = f", among {listed(names)}" if names[1:] else ""
    where = names[0] if names else _shown(repo, primary)
    fix = "a file must not name itself, nor one that names it"
    return Problem(f"goes in circles{among}", path="defaults", where=where, fix=fix)


def _choice_problem(error: Exception, override: Override) -> Problem:
    """A choice in a group of the user's own that nothing can be done with."""
    if override.is_delete():
        return override_problem(error, override)
    if override.is_add():
        what, fix = "is chosen already", "leave the + out"
    else:
        what = "nothing is chosen yet that this could replace"
        fix = f"add it: {shlex.quote(f'+{override.input_line}')}"
    return Problem(what, path=override.key_or_group, where=COMMAND_LINE, fix=fix)


def _missing_file(
    error: MissingConfigException, repo: CachingConfigRepository, typed: Sequence[Override]
) -> Problem:
    """A name in some defaults list that no file has."""
    missing = error.missing_cfg_file or ""
    group, _, name = missing.rpartition("/")
    parent = re.match(r"In '(.+?)': ", str(error))
    # A choice made in the job file overrides the entry of ours, so Hydra names that one.
    where = _line_naming(name, ([parent[1]] if parent else []) + [JOB], repo)
    if any((word.key_or_group, word.value()) == (group, name) for word in typed):
        where = COMMAND_LINE
    if group and repo.group_exists(group):
        return no_option(group, name, options(repo, group), where=where)
    what = f"there is no file called {missing}.yaml"
    fix = "files are looked for beside the job file"
    return Problem(what, path="defaults", where=where, fix=fix)


def _line_naming(name: str, files: Iterable[str], repo: CachingConfigRepository) -> str:
    """``file:line`` where one of the files says ``name``, for Hydra knows no lines."""
    for asking in files:
        if not repo.config_exists(asking):
            continue
        path, shown = source_of(repo, asking).file_of(asking)
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
            if name in line:
                return f"{shown}:{number}"
    return ""

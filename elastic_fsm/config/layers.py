"""Composes a run: schema, files, the program's own values, command line, in this order.

This is Hydra's composition, taken in its parts (the defaults list, the package of each file, its
override grammar) and not through ``hydra.compose``. In one piece Hydra stops at the first finding,
keeps its state in a process-wide singleton, imports every plugin of the environment, and composes
its own forty files of logging and launcher settings, which the agent must not use anyway. The
parts are private to Hydra; the pin in ``pyproject.toml`` and the tests guard us.

``machine`` is merged beside OmegaConf, by the same rules. It is open, so there is no type for
OmegaConf to check, and its five hundred nodes would cost more than all the rest together.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.utils import setup_globals
from hydra.errors import ConfigCompositionException, HydraException
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException
from packaging.version import Version

from elastic_fsm.config.failures import (
    UNFIT,
    WHOLE_LIST,
    leaf_problem,
    machine_problem,
    merge_problem,
    no_machine,
    override_problem,
    package_problem,
    resolve_problem,
)
from elastic_fsm.config.hints import is_known, takes_no_mapping
from elastic_fsm.config.sources import JOB, SCHEMA, repository, source_of, structured
from elastic_fsm.config.tree import index, leaves, merge, nested, put, remove
from elastic_fsm.config.words import CommandLine, TextWord
from elastic_fsm.list_form import place_in_lists
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hydra._internal.config_repository import CachingConfigRepository
    from hydra.core.default_element import ResultDefault
    from hydra.core.override_parser.types import Override

__all__ = ["FileLayer", "Layers"]


class FileLayer(NamedTuple):
    """A file that took part, in order: how the user calls it, and where its keys stand."""

    path: Path
    name: str
    package: str


@dataclass(slots=True)
class Layers:
    """One composition, with all that is needed to say where a value came from."""

    config: DictConfig
    machine: dict[str, Any] = field(default_factory=dict)
    files: list[FileLayer] = field(default_factory=list)
    program: Mapping[str, Any] = field(default_factory=dict)
    overrides: list[tuple[Override, str]] = field(default_factory=list)
    texts: list[TextWord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def compose(
        cls,
        words: Sequence[str],
        *,
        job: Path | None = None,
        program: Mapping[str, Any] | None = None,
    ) -> Layers:
        """Compose; findings that leave something to look at are in ``problems``."""
        with _version_base():
            repo = repository(job)
            # The job file first: a syntax error there is the one thing to say.
            if job is not None:
                repo.load_config(JOB)
            line = CommandLine(repo).read(words)
            if line.problems:
                raise BadInput(line.problems)
            layers = cls(structured(), overrides=line.overrides, texts=line.texts)
            layers._compose(repo, "run" if job is None else JOB)
            if not layers.machine:  # an entry without a name takes ours away
                layers.problems.append(no_machine(source_of(repo, JOB).file_of(JOB)[1]))
            layers._merge_program(program or {})
            layers._apply_words()
        return layers

    def _compose(self, repo: CachingConfigRepository, primary: str) -> None:
        """The files, as Hydra's defaults list orders them."""
        choices = [override for override, _ in self.overrides]
        try:
            found = create_defaults_list(repo, primary, choices, False, False)
        except (HydraException, ValueError, AssertionError, RecursionError) as error:
            # Only a mistake needs it: a start that makes none is quicker.
            from elastic_fsm.config.defaults_failures import defaults_problem

            raise BadInput([defaults_problem(error, repo, primary, choices)]) from None
        values = {id(override) for override in found.config_overrides}
        self.overrides = [pair for pair in self.overrides if id(pair[0]) in values]
        with flag_override(self.config, "no_deepcopy_set_nodes", True):
            for default in found.defaults:
                self._merge_file(default, repo)

    def _merge_file(self, default: ResultDefault, repo: CachingConfigRepository) -> None:
        path, package = default.config_path or "", default.package or ""
        if path == SCHEMA:
            return  # it is there from the start
        source = source_of(repo, path)
        self.files.append(FileLayer(*source.file_of(path), package))
        keys = tuple(part for part in package.split(".") if part not in ("", "_global_"))
        if not source.values[path]:
            return  # only a list of defaults
        if keys and keys[0] != "machine" and not is_known(".".join(keys)):
            self.problems.append(package_problem(package, self.files[-1].name))
            return
        self._merge(nested(keys, source.values[path]))

    def _merge(self, data: Mapping[str, Any]) -> None:
        """Merge; what does not fit is merged again value by value, to name each that is wrong."""
        data = _with_ranks(data)
        if "machine" in data:
            self._merge_machine(data["machine"])
            data = {key: value for key, value in data.items() if key != "machine"}
        try:
            self.config.merge_with(data)
        except UNFIT:
            for path, value in leaves(data):
                self._merge_leaf(path, value)
        for path, value in leaves(data):
            if value == "???":
                self._set_missing(".".join(map(str, path)))

    def _merge_machine(self, machine: Any) -> None:
        """A reference in the place of a machine is refused: nobody would follow it."""
        if isinstance(machine, dict):
            merge(self.machine, machine)
        else:
            self.problems.append(merge_problem(TypeError(), "machine", machine))

    def _set_missing(self, path: str) -> None:
        """A merge passes over ``???``, but whoever wrote it wants to be asked for a value."""
        with suppress(OmegaConfBaseException):  # no such key: that was said already
            OmegaConf.update(self.config, path, "???")

    def _merge_leaf(self, path: tuple[str | int, ...], value: Any, where: str = "") -> None:
        try:
            self.config.merge_with(nested(path, value))
        except UNFIT as error:
            self.problems.append(leaf_problem(error, path, value, where=where))

    def _merge_program(self, program: Mapping[str, Any]) -> None:
        self.program = program
        if self.whole_machine:
            self.machine = {}
        if program:
            self._merge(program)

    @property
    def whole_machine(self) -> bool:
        """Whether the program brought a machine of its own, of which nothing of ours is part."""
        machine = self.program.get("machine")
        return isinstance(machine, dict) and "initial" in machine

    def adopt_machine(self) -> None:
        """Hand the machine to OmegaConf after all, for it to follow the references in there."""
        try:
            self.config.machine = self.machine
        except UNFIT as error:
            self.problems.append(resolve_problem(error, "machine"))

    def _apply_words(self) -> None:
        OmegaConf.set_struct(self.config, True)
        for override, _ in self.overrides:
            if override.key_or_group.partition(".")[0] == "machine":
                self._change_machine(override)
            else:
                self._change(override)
        for text in self.texts:
            if text.path[:2] == ("spec", "args") and len(text.path) == 3:
                self._set_argument(str(text.path[2]), text.value)
                continue
            for path, value in leaves(_with_ranks(nested(text.path, text.value))):
                self._merge_leaf(path, value)

    def _set_argument(self, name: str, value: str) -> None:
        args, number = self.config.spec.args, index(name)
        if number is not None and number < len(args):
            args[number] = value
            return
        path = "spec.args" if number is None else f"spec.args.{number}"
        what = "there is no such argument"
        problem = Problem(what, path=path, fix=WHOLE_LIST, where=COMMAND_LINE)
        self.problems.append(problem)

    def _change(self, override: Override) -> None:
        try:
            ConfigLoaderImpl._apply_overrides_to_config([override], self.config)
        except (ConfigCompositionException, *UNFIT) as error:
            key, value = override.key_or_group, override.value()
            if not isinstance(value, dict) or takes_no_mapping(key):
                self.problems.append(override_problem(error, override))
                return
            # One by one, to name each that is wrong.
            for path, inner in leaves(value, tuple(key.split("."))):
                self._merge_leaf(path, inner, COMMAND_LINE)

    def _change_machine(self, override: Override) -> None:
        key, value = override.key_or_group, override.value()
        path = key.split(".")[1:]
        try:
            if override.is_delete():
                remove(self.machine, path)
            elif path:
                put(self.machine, path, value)
            elif isinstance(value, dict):
                merge(self.machine, value)
        except LookupError as error:
            place = place_in_lists(key, self.machine)
            self.problems.append(machine_problem(error, override, place))


@contextmanager
def _version_base() -> Iterator[None]:
    """Hydra's rules of 1.3 for us, and whatever the surrounding application chose after that."""
    base = VersionBase.instance()
    before, base.version_base = base.version_base, Version("1.3")
    if not OmegaConf.has_resolver("now"):
        setup_globals()
    try:
        yield
    finally:
        base.version_base = before


def _with_ranks(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Local ranks are numbers, also where they had to be written as text: in JSON, for one."""
    spec = data.get("spec")
    if not isinstance(spec, dict) or not isinstance(ranks := spec.get("worker_env"), dict):
        return data
    numbered = {_number(rank): env for rank, env in ranks.items()}
    return {**data, "spec": {**spec, "worker_env": numbered}}


def _number(rank: object) -> object:
    number = index(rank) if isinstance(rank, str) else None
    return rank if number is None else number

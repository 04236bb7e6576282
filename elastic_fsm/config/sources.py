"""Where Hydra reads our YAML: the files we ship, and those beside a user's job file.

Hydra's search path would do for the first and not for the second. A job file may stand in the
folder of another application, under any name, and only names that somebody chose may be read
from there; its defaults list is written plainly (``- machine: fail_fast``), without ``run`` and
without ``override``. So the user's folder is a source of our own, which reads the job file under
a name that no file has, and puts its defaults list into Hydra's form. Ours is asked first: a
``logs/files.yaml`` of the other application never takes the place of ours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.config_repository import (
    CachingConfigRepository,
    ConfigRepository,
    IConfigRepository,
)
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from elastic_fsm.config.defaults import AS_A_LIST, plain_defaults
from elastic_fsm.config.failures import reason
from elastic_fsm.config.paths import conf_dir, shown
from elastic_fsm.config.schema import RunConfig, field_types
from elastic_fsm.config.yamlfile import parse, read_text
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "JOB",
    "SCHEMA",
    "Repository",
    "UserSource",
    "YamlSource",
    "options",
    "repository",
    "source_of",
    "structured",
]

# The job file's name inside Hydra; no file can have it, since a name with a slash is a group.
JOB = "<job>"
# The name under which `run.yaml` asks for the dataclasses.
SCHEMA = "schema"


def structured() -> DictConfig:
    """The dataclasses as Hydra's schema, open where names are the user's."""
    config: DictConfig = OmegaConf.structured(RunConfig)
    open_to_all = (config.spec.env, config.spec.worker_env, config.rendezvous.options)
    for node in (config.machine, *open_to_all):
        # Else `spec.env.X=1` would need a plus sign: Hydra closes every mapping that it composes.
        OmegaConf.set_struct(node, False)
    return config


class YamlSource(FileConfigSource):
    """A folder of ours: YAML read by ``yamlfile``, and the schema.

    What a file holds is kept in ``values``, as plain data, and Hydra sees its defaults list only:
    OmegaConf's nodes are slow to build and to copy, and Hydra would do both twice.
    """

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.values: dict[str, dict[str, Any]] = {}

    def file_of(self, config_path: str) -> tuple[Path, str]:
        """The file behind a name of Hydra's, and how the user would call it."""
        path = Path(self.path, config_path.removesuffix(".yaml") + ".yaml")
        return path, shown(path)

    def is_config(self, config_path: str) -> bool:
        return config_path == SCHEMA or self.file_of(config_path)[0].is_file()

    def load_config(self, config_path: str) -> ConfigResult:
        if config_path == SCHEMA:
            return self._result([], {"package": None})
        path, name = self.file_of(config_path)
        text = read_text(path, name=name)
        header = self.header(text, config_path, name)
        data = parse(text, name=name, package=package_of(config_path, header["package"]))
        defaults = self.defaults(data.pop("defaults", None), config_path, name)
        self.values[config_path] = data
        return self._result(defaults, header)

    def header(self, text: str, config_path: str, name: str) -> dict[str, str | None]:
        """What the comments at the top of a file say to Hydra."""
        try:
            found: dict[str, str | None] = ConfigSource._get_header_dict(text[:512])
        except ValueError as error:
            fix = "write it as `# @package _global_`"
            raise BadInput.of(f"not a package line: {error}", where=name, fix=fix) from None
        return found

    def defaults(self, given: Any, config_path: str, name: str) -> Any:
        """The file's defaults list in the form that Hydra wants."""
        return given or []

    def _result(self, defaults: Any, header: dict[str, str | None]) -> ConfigResult:
        config = OmegaConf.create({"defaults": defaults})
        path = f"{self.scheme()}://{self.path}"
        return ConfigResult(config=config, path=path, provider=self.provider, header=header)


class UserSource(YamlSource):
    """The folder of a job file: nothing in it counts but the job file and names somebody chose."""

    def __init__(self, job: Path) -> None:
        super().__init__(provider="job file", path=os.fspath(job.absolute().parent))
        self.job = job

    def file_of(self, config_path: str) -> tuple[Path, str]:
        """As the user would write it: beside the job file as it was typed."""
        beside = self.job.parent / (config_path.removesuffix(".yaml") + ".yaml")
        path = self.job if config_path == JOB else beside
        return path, os.fspath(path)

    def is_config(self, config_path: str) -> bool:
        return config_path == JOB or super().is_config(config_path)

    def is_group(self, config_path: str) -> bool:
        """A folder, unless it is called as one of our plain keys (``run_dir/`` is no group)."""
        return not field_types().get(config_path) and super().is_group(config_path)

    def header(self, text: str, config_path: str, name: str) -> dict[str, str | None]:
        """Files at the top stand for the whole run, whatever package they name."""
        return super().header(text if "/" in config_path else "", config_path, name)

    def defaults(self, given: Any, config_path: str, name: str) -> Any:
        """Files at the top choose groups plainly; files inside a group are Hydra's own affair."""
        if "/" in config_path:
            return given or []
        return plain_defaults(given, name, primary=config_path == JOB)


class Repository(ConfigRepository):
    """Hydra's repository over sources that are given, not looked up by the scheme of a URL.

    So nothing has to be registered in the process, and no plugin of the environment is imported
    (scanning for them costs each launch six milliseconds, and more with heavy plugins).
    """

    def __init__(self, sources: Sequence[ConfigSource]) -> None:
        self.sources = list(sources)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """As Hydra does; what it says of a list of defaults that it cannot read has no file."""
        try:
            return super().load_config(config_path)
        except (ValueError, AssertionError) as error:
            _, where = source_of(self, config_path).file_of(config_path)
            what = f"cannot be read: {reason(error)}"
            raise BadInput.of(what, path="defaults", where=where, fix=AS_A_LIST) from None


def repository(job: Path | None) -> CachingConfigRepository:
    """All that a run may be composed of."""
    ours = YamlSource(provider="elastic_fsm", path=os.fspath(conf_dir() / "elastic_fsm"))
    sources: list[ConfigSource] = [ours] if job is None else [ours, UserSource(job)]
    return CachingConfigRepository(Repository(sources))


def source_of(repo: IConfigRepository, config_path: str) -> YamlSource:
    """The source that a name of Hydra's was read from."""
    source = next(source for source in repo.get_sources() if source.is_config(config_path))
    assert isinstance(source, YamlSource)  # there are no others in our repository
    return source


def package_of(config_path: str, header: str | None) -> str:
    """Where a file's keys will stand: in its group, unless ``# @package`` says otherwise."""
    package = config_path.rpartition("/")[0].replace("/", ".") if header is None else header
    return package.removeprefix("_global_").removeprefix(".")


def options(repo: CachingConfigRepository, group: str) -> list[str]:
    """The names that may be chosen for a group: ours, then those beside the job file."""
    names: list[str] = repo.get_group_options(group)
    return names

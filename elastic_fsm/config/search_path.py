"""Our YAML on the search path of other people's Hydra applications.

Every Hydra application of the environment imports this, mostly in vain. So nothing is registered
beforehand: a source with a scheme of its own stands at the end of the search path, after the
application's files, and does its work when somebody asks for a name below ``elastic_fsm/``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin

from elastic_fsm.config.paths import conf_dir

if TYPE_CHECKING:
    from hydra.core.config_search_path import ConfigSearchPath

__all__ = ["ElasticFsmSearchPath", "ElasticFsmSource"]

_SCHEMA = "elastic_fsm/schema"


class ElasticFsmSource(FileConfigSource):
    """The folder that holds ``elastic_fsm/``, with the dataclasses as ``elastic_fsm/schema``."""

    @staticmethod
    def scheme() -> str:
        """The word before ``://`` in the search path."""
        return "elastic_fsm"

    def is_config(self, config_path: str) -> bool:
        return config_path == _SCHEMA or (_ours(config_path) and super().is_config(config_path))

    def is_group(self, config_path: str) -> bool:
        return config_path == "" or (_ours(config_path) and super().is_group(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        if config_path != _SCHEMA:
            result: ConfigResult = super().load_config(config_path)
            return result
        from elastic_fsm.config.sources import structured

        header: dict[str, str | None] = {"package": None}
        return ConfigResult(
            config=structured(), path=self.full_path(), provider=self.provider, header=header
        )


def _ours(config_path: str) -> bool:
    return config_path == "elastic_fsm" or config_path.startswith("elastic_fsm/")


class ElasticFsmSearchPath(SearchPathPlugin):
    """Adds our folder to the search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Hydra calls this once, after the application's own folder was added."""
        search_path.append("elastic_fsm", f"elastic_fsm://{conf_dir()}")

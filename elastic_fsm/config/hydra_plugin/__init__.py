"""Lets every Hydra application say ``defaults: [elastic_fsm@agent: run]``.

The build puts this folder into ``hydra_plugins``, where Hydra looks. It only points at the code,
so that an editable install never runs a stale copy of it.
"""

from elastic_fsm.config.search_path import ElasticFsmSearchPath, ElasticFsmSource

__all__ = ["ElasticFsmSearchPath", "ElasticFsmSource"]

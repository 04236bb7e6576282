"""The configuration of a run: dataclasses, YAML and command line become one checked mapping.

``compose`` and ``resolve`` load Hydra, a tenth of a second; the names are therefore looked up
when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastic_fsm.config.composed import Composed
    from elastic_fsm.config.composition import compose, resolve
    from elastic_fsm.config.hints import torchrun_hint
    from elastic_fsm.config.schema import RunConfig

__all__ = ["Composed", "RunConfig", "compose", "resolve", "torchrun_hint"]

_HOMES = {
    "Composed": "composed",
    "RunConfig": "schema",
    "compose": "composition",
    "resolve": "composition",
    "torchrun_hint": "hints",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

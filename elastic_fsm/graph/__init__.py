"""Machines as pictures, pages and other people's formats.

One way leads through the package: ``extract`` turns a declaration into the ``model``'s diagram,
``run_layer`` or ``difference`` may put a layer over it, and a renderer turns both into text;
``pictures`` has a program draw DOT. ``command`` is the verb, ``drawing`` the door for programs.
Nothing else in elastic_fsm needs any of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastic_fsm.graph.drawing import Drawing, machine_diagram
    from elastic_fsm.graph.notebook import load_ipython_extension

__all__ = ["Drawing", "load_ipython_extension", "machine_diagram"]

_HOMES = {
    "Drawing": "drawing",
    "load_ipython_extension": "notebook",
    "machine_diagram": "drawing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

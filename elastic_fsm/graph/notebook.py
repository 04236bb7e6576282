"""Machines that draw themselves in a notebook, after ``%load_ext elastic_fsm``.

The core knows nothing of pictures, so its classes have no methods for them; IPython is told
what to do with them instead.
"""

from __future__ import annotations

from typing import Any

from elastic_fsm.graph.drawing import machine_diagram

__all__ = ["load_ipython_extension"]

_CLASSES = (("elastic_fsm.declaration", "MachineSpec"), ("elastic_fsm.machine", "Machine"))


def load_ipython_extension(ipython: Any) -> None:
    """What ``%load_ext elastic_fsm`` calls."""
    bundles = ipython.display_formatter.mimebundle_formatter
    for module, name in _CLASSES:
        bundles.for_type_by_name(module, name, _bundle)


def _bundle(machine: Any, include: Any = None, exclude: Any = None) -> dict[str, str]:
    return machine_diagram(machine)._repr_mimebundle_()

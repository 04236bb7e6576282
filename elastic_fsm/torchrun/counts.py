"""How many nodes and workers torchrun's words mean; torch is asked only where it alone knows."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from elastic_fsm.devices import visible_gpus

__all__ = ["determine_local_world_size", "parse_min_max_nnodes"]

# Device nodes of accelerators that we cannot count ourselves.
_OTHER_DEVICES = ("dri/renderD*", "accel/*", "davinci[0-9]*")


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """``4`` or ``1:4`` as least and greatest number.

    Raises ``ValueError`` for other text, for less than one node, and for ``4:1``.
    """
    first, colon, last = nnodes.partition(":")
    try:
        least, most = int(first), int(last if colon else first)
    except ValueError:
        least = most = 0
    if 1 <= least <= most:
        return least, most
    fix = "write 4, or 1:4, from 1 on and the smaller first"
    raise ValueError(f"{nnodes!r} is no number of nodes; {fix}")


def determine_local_world_size(nproc_per_node: str) -> int:
    """A number, or what there is of ``cpu``, ``gpu``, ``xpu``, a torch backend, or ``auto``.

    ``auto`` is one for each accelerator, else for each processor of this process. Raises
    ``ValueError`` where there are none, and for words that mean nothing.
    """
    if _is_number(nproc_per_node):
        return int(nproc_per_node)
    if nproc_per_node == "cpu":
        return _processors()
    if nproc_per_node == "gpu":
        return _at_least_one(visible_gpus(os.environ, Path("/")), "gpu")
    if nproc_per_node == "auto":
        return visible_gpus(os.environ, Path("/")) or _other_devices() or _processors()
    return _at_least_one(_asked_of_torch(nproc_per_node), nproc_per_node)


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _at_least_one(count: int, kind: str) -> int:
    if count < 1:
        raise ValueError(f"there is no {kind} on this node; give a number, or cpu")
    return count


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def _other_devices() -> int:
    if not any(any(Path("/dev").glob(pattern)) for pattern in _OTHER_DEVICES):
        return 0
    try:
        accelerator = import_module("torch").accelerator
    except ImportError:
        return 0
    return int(accelerator.device_count()) if accelerator.is_available() else 0


def _asked_of_torch(kind: str) -> int:
    """The devices of a kind that torch has a module for, such as ``xpu``."""
    fix = "give a number, auto, cpu or gpu"
    try:
        torch: Any = import_module("torch")
    except ImportError:
        what = f"{kind!r} workers: only torch could count them, which is not installed"
        raise ValueError(f"{what}; {fix}") from None
    own = torch._C._get_privateuse1_backend_name()
    if kind not in ("xpu", own) or not hasattr(torch, kind):
        raise ValueError(f"{kind!r} is no number of workers; {fix}")
    devices = getattr(torch, kind)
    return int(devices.device_count()) if devices.is_available() else 0

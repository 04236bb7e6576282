"""How many workers ``auto`` means: one for each visible GPU, else one. Asks no GPU library."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["visible_gpus", "workers_for_auto"]

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_NODE = re.compile(r"nvidia\d+")


def workers_for_auto() -> int:
    """One worker for each visible GPU, one when there is none."""
    return max(1, visible_gpus(os.environ, Path("/")))


def visible_gpus(environment: Mapping[str, str], root: Path) -> int:
    """The number of GPUs that a worker would see.

    A list in the environment decides, and its first invalid entry ends it, as in CUDA; without
    one the device nodes below ``root`` are counted.
    """
    lists = [environment[name] for name in _VISIBLE if name in environment]
    if lists:
        return min(_listed(text) for text in lists)
    return _nvidia_nodes(root) or _amd_nodes(root)


def _listed(text: str) -> int:
    entries = [entry.strip() for entry in text.split(",")]
    for count, entry in enumerate(entries):
        if not entry or entry == "-1" or entry == "NoDevFiles":
            return count
    return len(entries)


def _nvidia_nodes(root: Path) -> int:
    return sum(bool(_NODE.fullmatch(path.name)) for path in (root / "dev").glob("nvidia*"))


def _amd_nodes(root: Path) -> int:
    """Compute nodes of the AMD driver; a node without SIMD units is a processor."""
    nodes = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")
    return sum(_simd_units(path) > 0 for path in nodes)


def _simd_units(path: Path) -> int:
    try:
        found = re.search(r"^simd_count (\d+)$", path.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0

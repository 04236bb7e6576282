"""The first words of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm import __version__
from elastic_fsm.config.paths import shown
from elastic_fsm.printable import printable
from elastic_fsm.rendezvous.choice import nodes_in_words, warn_of_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.preparing import Prepared
    from elastic_fsm.rundir import RunDir

__all__ = ["banner"]


def banner(prepared: Prepared, folder: RunDir) -> str:
    """What is run, how much of it, by which rules, and where its files are."""
    spec, values = prepared.spec, prepared.values
    grace = values["stop"]["grace"]
    what = "journal" if values["logs"]["mode"] == "torchrun" else "logs"
    place = f"{what} in {shown(folder.node)}"
    text = (
        f"elastic_fsm {__version__}, run {prepared.run_id}: "
        f"{_size(spec.local_world_size, values['rendezvous'])}\n"
        f"policy: {spec.max_restarts} restart{'s' * (spec.max_restarts != 1)}; "
        f"stop by {', '.join(values['stop']['signals'])}, "
        f"{'no limit' if grace is None else f'{grace:g} s'} of grace; {place}"
    )
    warning = warn_of_loopback(values["rendezvous"])
    return printable(f"{text}\nwarning: {warning}" if warning else text)


def _size(workers: int, rendezvous: Mapping[str, Any]) -> str:
    """How many workers on how many nodes, and their sum where it is known."""
    size = f"{workers} per node × {nodes_in_words(rendezvous)}"
    if rendezvous["min_nodes"] != rendezvous["max_nodes"]:
        return size
    total = workers * rendezvous["max_nodes"]
    return f"{size} = {total} worker{'s' * (total != 1)}"

"""The first words of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm import __version__
from elastic_fsm.config.paths import shown
from elastic_fsm.narration import counted
from elastic_fsm.printable import printable
from elastic_fsm.rendezvous.choice import nodes_in_words, warn_of_loopback
from elastic_fsm.rendezvous.ports import why_not_served

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.preparing import Prepared
    from elastic_fsm.rundir import RunDir

__all__ = ["banner"]


def banner(prepared: Prepared, folder: RunDir) -> str:
    """What is run, how much of it, by which rules, and where its files are."""
    spec, values = prepared.spec, prepared.values
    grace, signals = values["stop"]["grace"], values["stop"]["signals"]
    what = "journal" if values["logs"]["mode"] == "torchrun" else "logs"
    place = f"{what} in {shown(folder.node)}"
    text = (
        f"elastic_fsm {__version__}, run {prepared.run_id}: "
        f"{_size(spec.local_world_size, values['rendezvous'])}\n"
        f"policy: {counted(spec.max_restarts, 'restart')}; "
        f"stop by {', '.join(signals) or 'no signal'}, "
        f"{'no limit' if grace is None else f'{grace:g} s'} of grace; {place}"
    )
    rendezvous = values["rendezvous"]
    warnings = (
        warn_of_loopback(rendezvous),
        _warn_of_options(rendezvous),
        _warn_of_port(prepared),
    )
    return printable("\n".join([text, *(f"warning: {each}" for each in warnings if each)]))


def _warn_of_options(rendezvous: Mapping[str, Any]) -> str:
    if not rendezvous["options"]:
        return ""
    from elastic_fsm.rendezvous.options import warn_of_options  # few runs have any

    return warn_of_options(rendezvous["name"], rendezvous["options"])


def _warn_of_port(prepared: Prepared) -> str:
    """A warning where worker rank 0 could not serve at the port that was chosen; else empty.

    No error: who has the port may be about to end, and not every program meets there. Where this
    node may not be that of rank 0, nothing is known.
    """
    port = prepared.spec.master_port
    if not port or not _has_rank_0(prepared) or not (why := why_not_served(port)):
        return ""
    return (
        f"workers cannot meet at port {port} of this host now: {why}; choose another "
        "spec.master_port, or leave it out, and each start gets a free one"
    )


def _has_rank_0(prepared: Prepared) -> bool:
    rendezvous, address = prepared.values["rendezvous"], prepared.spec.master_addr
    here = (None, "localhost", "127.0.0.1", "::1", prepared.host, prepared.node.address)
    first = rendezvous["max_nodes"] == 1 or rendezvous["node_rank"] == 0
    return first and address in here


def _size(workers: int, rendezvous: Mapping[str, Any]) -> str:
    """How many workers on how many nodes, and their sum where it is known."""
    size = f"{workers} per node × {nodes_in_words(rendezvous)}"
    if rendezvous["min_nodes"] != rendezvous["max_nodes"]:
        return size
    total = workers * rendezvous["max_nodes"]
    return f"{size} = {counted(total, 'worker')}"

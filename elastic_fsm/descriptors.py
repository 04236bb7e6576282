"""Whether the agent may open as many files as it needs (``ulimit -n``)."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import Problem
from elastic_fsm.rendezvous.choice import is_standalone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["check_descriptors"]

# Measured: 20 of the agent's own while a worker is started, and a few that it inherits; 20 for a
# store; one that tells of a worker's end, and two for the files that are shown.
_OWN, _STORE, _EACH, _SHOWN = 26, 20, 1, 2


def check_descriptors(values: Mapping[str, Any], workers: int) -> Iterator[Problem]:
    """A limit that the start of so many workers would run into; ``values`` are the run's.

    The limit is the workers' own, too, and so is left as it is.
    """
    logs, store = values["logs"], 0 if is_standalone(values["rendezvous"]) else _STORE
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = workers if logs["mode"] in ("tee", "console") else 0
    if logs["console_ranks"] is not None:
        shown = min(shown, len(logs["console_ranks"]))
    needed = _OWN + store + _EACH * workers + _SHOWN * shown
    if resource.RLIM_INFINITY != limit < needed:
        what = f"{workers} workers need {needed} open files; the limit is {limit}"
        yield Problem(what, path="spec.local_world_size", fix=f"ulimit -n {2 * needed}, before it")

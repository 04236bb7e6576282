"""What can go wrong between nodes, with the names of torch's errors.

A handler may be torch's own, and raise torch's classes, or somebody else's. They are told apart by
name, so that nothing needs to import torch.
"""

from __future__ import annotations

__all__ = [
    "KINDS",
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousStateError",
    "RendezvousTimeoutError",
    "explain",
    "is_kind",
]


class RendezvousError(Exception):
    """The nodes cannot agree."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous is closed: the run is over for all nodes."""


class RendezvousTimeoutError(RendezvousError):
    """Too few nodes came in time."""


class RendezvousConnectionError(RendezvousError):
    """The rendezvous cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What the nodes share about the rendezvous cannot be read."""


class RendezvousGracefulExitError(RendezvousError):
    """The run ended without this node, a spare one: nothing failed."""


_IN_WORDS = {
    RendezvousClosedError: "the run is closed: it is over, or its id was used by an earlier run",
    RendezvousTimeoutError: "too few nodes came in time",
    RendezvousConnectionError: "the rendezvous cannot be reached",
    RendezvousStateError: "the shared state of the rendezvous cannot be read",
}

KINDS = (*_IN_WORDS, RendezvousGracefulExitError)
"""All kinds of :class:`RendezvousError`."""


def is_kind(error: BaseException, kind: type[RendezvousError]) -> bool:
    """Whether an error is of this kind: one of ours, or anybody's of the same name."""
    return any(base.__name__ == kind.__name__ for base in type(error).__mro__)


def explain(error: BaseException) -> str:
    """An error and what it came from, for people."""
    kind = next((words for kind, words in _IN_WORDS.items() if is_kind(error, kind)), "")
    cause = error.__cause__
    parts = [
        kind or type(error).__name__,
        str(error),
        f"{type(cause).__name__}: {cause}" if cause else "",
    ]
    return ": ".join(part for part in parts if part)

"""What to say when the store is gone through which the nodes met.

torch's TCP store lives in the agent of one node, and ends with it. Its errors speak of sockets.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from elastic_fsm.rendezvous.errors import (
    KINDS,
    RendezvousConnectionError,
    RendezvousError,
    explain,
    is_kind,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["as_ours", "explain_with", "naming_store", "place_of"]

_NETWORK_ERRORS = {"ConnectionError", "DistNetworkError"}


def place_of(store: Any) -> str:
    """The ``host:port`` at which a store is served; empty for one that is not."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    host, port = getattr(store, "host", ""), getattr(store, "port", "")
    return f"{host}:{port}" if host and port else ""


def explain_with(store: Any, error: BaseException) -> str:
    """An error for people, of one who has met the others in ``store``, or has not yet (None)."""
    place = place_of(store)
    if not (place and _is_loss(error)):
        return explain(error)
    detail = str(error.__cause__ or error).partition("\n")[0]
    return (
        f"the rendezvous store at {place} has gone: "
        f"the agent there that hosted it has ended, or cannot be reached ({detail})"
    )


def as_ours(error: Exception, text: str) -> RendezvousError:
    """An error of our own, of the same kind, that says ``text``."""
    kinds = (kind for kind in KINDS if is_kind(error, kind))
    fallback = RendezvousConnectionError if _is_loss(error) else RendezvousError
    ours = next(kinds, fallback)(text)
    ours.__cause__ = error
    return ours


@contextmanager
def naming_store(store: Any) -> Iterator[None]:
    """Add to an error, which stays what it is, that it was the store that went."""
    try:
        yield
    except Exception as error:
        if place_of(store) and _is_loss(error):
            error.add_note(explain_with(store, error))
        raise


def _is_loss(error: BaseException) -> bool:
    names = {base.__name__ for base in type(error).__mro__}
    return is_kind(error, RendezvousConnectionError) or bool(names & _NETWORK_ERRORS)

"""Handlers by name: torch's own, ours for a single node, and those that others bring along.

A name is looked for here, then among installed plug-ins (entry points of the group
``torchrun.handlers``), then in torch's registry if the program uses that. torch's backends are made
by torch's registry, so that whoever replaces one there is honoured here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import BadInput, Problem, did_you_mean
from elastic_fsm.rendezvous.choice import TORCH_BACKENDS
from elastic_fsm.rendezvous.handler import RendezvousHandler, RendezvousParameters
from elastic_fsm.rendezvous.single import SingleNodeHandler

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

__all__ = [
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "get_rendezvous_handler",
    "known_backends",
    "no_etcd_client",
    "rendezvous_handler_registry",
]

RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]

_TORCH_HOME = "torch.distributed.elastic.rendezvous"


class RendezvousHandlerRegistry:
    """Creators of handlers by the names of their backends."""

    def __init__(self) -> None:
        self._registry: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Add a backend. Raises ``ValueError`` when another creator has its name."""
        if not backend:
            raise ValueError("the rendezvous backend must have a name")
        known = self._registry.setdefault(backend, creator)
        if known != creator:
            raise ValueError(
                f"the rendezvous backend {backend!r} is registered already, with {known!r}"
            )

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """A new handler.

        Raises ``ValueError`` for a name that nobody knows, ``RuntimeError`` when the handler says
        it is of another backend, and whatever its creator raises.
        """
        handler = self._creator(params.backend)(params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"the handler for the rendezvous backend {params.backend!r} "
                f"says that it is {handler.get_backend()!r}"
            )
        return handler

    def _creator(self, backend: str) -> RendezvousHandlerCreator:
        creator = self._registry.get(backend) or _plugin(backend) or _known_to_torch(backend)
        if creator is None:
            hint = did_you_mean(backend, known_backends())
            raise ValueError(f"there is no rendezvous backend {backend!r}; {hint}")
        return creator


def known_backends() -> list[str]:
    """The names in the registry that all share, and those of plug-ins."""
    own = rendezvous_handler_registry._registry
    return [*own, *(plugin.name for plugin in _plugins())]


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """A new handler from the registry that all share."""
    return rendezvous_handler_registry.create_handler(params)


def _plugin(backend: str) -> RendezvousHandlerCreator | None:
    """What an installed package offers: its entry point, called once, gives the creator."""
    found = [plugin for plugin in _plugins() if plugin.name == backend]
    return found[0].load()() if found else None


def _plugins() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to load

    return entry_points(group="torchrun.handlers")


def _known_to_torch(backend: str) -> RendezvousHandlerCreator | None:
    if _TORCH_HOME not in sys.modules:
        return None
    known = sys.modules[_TORCH_HOME].rendezvous_handler_registry._registry
    return _create_with_torch if backend in known else None


def _create_with_torch(params: RendezvousParameters) -> RendezvousHandler:
    home = _import_torch(params.backend)
    if not isinstance(params, home.RendezvousParameters):
        params = home.RendezvousParameters(
            params.backend,
            params.endpoint,
            params.run_id,
            params.min_nodes,
            params.max_nodes,
            params.local_addr,
            **_with_number(params),
        )
    try:
        handler: RendezvousHandler = home.rendezvous_handler_registry.create_handler(params)
    except Exception as error:
        if type(error).__name__ != "EtcdStubError":  # torch's word for a client that is not there
            raise
        raise BadInput([no_etcd_client(params.backend)]) from None
    return handler


def no_etcd_client(backend: str) -> Problem:
    """torch's two backends for etcd speak its older protocol, by a client that torch has not."""
    return Problem(
        f"the rendezvous backend {backend!r} needs a client of etcd, which is not installed",
        fix="pip install python-etcd; the server must be etcd 3.5 or older, with --enable-v2",
    )


def _with_number(params: RendezvousParameters) -> dict[str, Any]:
    """torch's static backend takes the rank as it is, and "0" would not be rank 0."""
    rank = {"rank": params.get_as_int("rank")} if "rank" in params.config else {}
    return {**params.config, **rank}


def _import_torch(backend: str) -> Any:
    try:
        return import_module(_TORCH_HOME)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise BadInput.of(
            f"the rendezvous backend {backend!r} is PyTorch's, which is not installed",
            fix="pip install torch; or, for one node, the backend 'single'",
        ) from None
    except ValueError as error:  # torch reads LOGLEVEL, and takes fewer names than we do
        if "LOGLEVEL" not in os.environ:
            raise
        raise BadInput.of(
            f"PyTorch cannot be loaded: {error}",
            where="environment",
            fix="unset LOGLEVEL, or set it to DEBUG, INFO, WARNING or ERROR",
        ) from None


def _create_single(params: RendezvousParameters) -> RendezvousHandler:
    if params.max_nodes != 1:
        raise ValueError(f"the rendezvous backend 'single' is for one node, not {params.max_nodes}")
    return SingleNodeHandler(params.run_id, params.local_addr)


rendezvous_handler_registry = RendezvousHandlerRegistry()
"""The one that all share."""

for _backend in TORCH_BACKENDS:
    rendezvous_handler_registry.register(_backend, _create_with_torch)
rendezvous_handler_registry.register("single", _create_single)

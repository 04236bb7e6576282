"""How torchrun's nodes meet, in words of the group ``rendezvous``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem
from elastic_fsm.rendezvous.choice import TORCH_BACKENDS
from elastic_fsm.torchrun.counts import parse_min_max_nnodes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

__all__ = ["endpoint_of", "nodes_of", "options_of"]

# torchrun's port of node 0 with the static backend, and what it calls a run that has no id.
_DEFAULT_PORT = 29500
_NO_ID = "none"


def nodes_of(args: Namespace) -> Iterator[tuple[str, Any]]:
    """The values of the group, ``rendezvous`` its choice, and the run's id.

    A single node has nobody to meet: it needs no store, no endpoint and no torch, and its run gets
    an id of its own unless one is given. Raises :class:`BadInput`.
    """
    try:
        least, most = parse_min_max_nnodes(args.nnodes)
        options = options_of(args.rdzv_conf)
    except ValueError as error:
        raise BadInput([Problem.told(str(error), where=COMMAND_LINE)]) from None
    if args.standalone and least > 1:
        what = f"--standalone is for one node, not {least}"
        raise BadInput.of(what, where=COMMAND_LINE, fix="leave one of the two out")
    if _is_alone(args, most):
        yield from _single_node(args)
    else:
        yield from _several_nodes(args, least, most, options)


def _is_alone(args: Namespace, most: int) -> bool:
    """Whether there is no other node to meet, by a backend whose ways we know."""
    return bool(args.standalone or (most == 1 and args.rdzv_backend in TORCH_BACKENDS))


def _single_node(args: Namespace) -> Iterator[tuple[str, Any]]:
    if args.standalone:
        return
    if args.rdzv_id != _NO_ID:
        yield "run_id", args.rdzv_id
    if args.rdzv_backend != "static":
        return
    if args.node_rank != 0:
        what = f"--node-rank: there is no node {args.node_rank} among 1"
        fix = "give the number of nodes: --nnodes"
        raise BadInput.of(what, where=COMMAND_LINE, fix=fix)
    if args.rdzv_endpoint or args.master_port is not None:
        address, port = _split(endpoint_of(args))
        yield "spec.master_addr", address
        yield "spec.master_port", port


def _split(endpoint: str) -> tuple[str, int]:
    address, _, port = endpoint.rpartition(":")
    if not address or not port.isdecimal():
        what = f"--rdzv-endpoint: {endpoint!r} is no host:port"
        raise BadInput.of(what, where=COMMAND_LINE, fix="such as 127.0.0.1:29500")
    return address.strip("[]"), int(port)


def endpoint_of(args: Namespace) -> str:
    """Where the nodes meet: that of the static backend may be given in two parts."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        port = _DEFAULT_PORT if args.master_port is None else args.master_port
        return f"{args.master_addr}:{port}"
    return str(args.rdzv_endpoint)


def _several_nodes(
    args: Namespace, least: int, most: int, options: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    yield "run_id", args.rdzv_id
    if args.rdzv_backend in TORCH_BACKENDS:
        yield "rendezvous", args.rdzv_backend
    else:  # a plug-in's
        yield "rendezvous", "c10d"
        yield "rendezvous.name", args.rdzv_backend
    yield "rendezvous.endpoint", endpoint_of(args)
    yield "rendezvous.min_nodes", least
    yield "rendezvous.max_nodes", most
    if args.rdzv_backend == "static":
        yield "rendezvous.node_rank", args.node_rank
    yield "rendezvous.options", options


def options_of(text: str) -> dict[str, Any]:
    """``--rdzv-conf``: ``join_timeout=60,read_timeout=30``. Raises ``ValueError``."""
    options: dict[str, Any] = {}
    for pair in filter(None, text.strip().split(",")):
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise ValueError(f"--rdzv-conf: {pair!r} is no key=value; write join_timeout=60")
        options[key] = int(value) if value.isdecimal() else value
    return options

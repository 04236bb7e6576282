"""Which rendezvous a run has: what is wrong with the choice, and what to say of it."""

from __future__ import annotations

import importlib.util
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "TORCH_BACKENDS",
    "check_rendezvous",
    "is_standalone",
    "nodes_in_words",
    "warn_of_loopback",
]

_OURS = ("standalone", "single")
TORCH_BACKENDS = ("static", "c10d", "etcd", "etcd-v2")


def is_standalone(rendezvous: Mapping[str, Any]) -> bool:
    """Whether this node is alone, with nobody to agree with."""
    return bool(rendezvous["name"] == "standalone")


def nodes_in_words(rendezvous: Mapping[str, Any]) -> str:
    """How many nodes there will be, as in ``2 nodes`` or ``1 to 4 nodes``."""
    least, most = rendezvous["min_nodes"], rendezvous["max_nodes"]
    if least != most:
        return f"{least} to {most} nodes"
    return f"{most} node{'s' * (most != 1)}"


def warn_of_loopback(rendezvous: Mapping[str, Any]) -> str:
    """A warning where other machines would be told to meet on their own; else empty."""
    host = _host_and_port(rendezvous["endpoint"])[0]
    if rendezvous["max_nodes"] == 1 or not _is_loopback(host):
        return ""
    return f"the nodes meet at {host}, which is each machine itself: only agents on one can"


def check_rendezvous(values: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the group ``rendezvous``; ``values`` are those of the whole run."""
    rendezvous = values["rendezvous"]
    yield from _check_name(rendezvous["name"])
    yield from _check_numbers(rendezvous)
    if rendezvous["name"] in _OURS:
        yield from _check_alone(rendezvous)
    else:
        from elastic_fsm.rendezvous.options import check_options

        yield from check_options(rendezvous["name"], rendezvous["options"])
        yield from _check_endpoint(rendezvous)
        yield from _check_run_id(values)


def _check_name(name: str) -> Iterator[Problem]:
    if name in _OURS:
        return
    if name in TORCH_BACKENDS:
        if importlib.util.find_spec("torch") is None:
            what = f"the rendezvous {name!r} is PyTorch's, which is not installed"
            fix = "pip install torch; or, for one node, rendezvous=standalone"
            yield Problem(what, path="rendezvous.name", fix=fix)
        elif name.startswith("etcd") and importlib.util.find_spec("etcd") is None:
            from elastic_fsm.rendezvous.handler_registry import no_etcd_client

            yield no_etcd_client(name)._replace(path="rendezvous.name")
        return
    from elastic_fsm.rendezvous.handler_registry import known_backends

    if name not in known_backends():
        fix = did_you_mean(name, ["standalone", *known_backends()])
        yield Problem(f"unknown rendezvous {name!r}", path="rendezvous.name", fix=fix)


def _check_numbers(rendezvous: Mapping[str, Any]) -> Iterator[Problem]:
    least, most = rendezvous["min_nodes"], rendezvous["max_nodes"]
    if least < 1:
        yield Problem(f"{least} is too small", path="rendezvous.min_nodes", fix="at least 1")
    elif most < least:
        fix = f"at least rendezvous.min_nodes, which is {least}"
        yield Problem(f"{most} is too small", path="rendezvous.max_nodes", fix=fix)
    if most > 1 and rendezvous["name"] in _OURS:
        what = f"rendezvous={rendezvous['name']} is for one node, not {most}"
        yield Problem(what, path="rendezvous.max_nodes", fix="choose rendezvous=c10d or static")
    yield from _check_node_rank(rendezvous["name"], rendezvous["node_rank"], most)


def _check_node_rank(name: str, rank: int | None, nodes: int) -> Iterator[Problem]:
    path = "rendezvous.node_rank"
    if rank is not None and name != "static":
        fix = "leave it out: the nodes agree on their numbers; rendezvous=static takes them"
        yield Problem("only rendezvous=static has fixed numbers", path=path, fix=fix)
    elif rank is None and name == "static" and nodes > 1:
        fix = f"give each of the {nodes} nodes its own, from 0 on: rendezvous.node_rank=0"
        yield Problem("this node has no number", path="rendezvous", fix=fix)
    elif rank is not None and not 0 <= rank < nodes:
        what = f"there is no node {rank} among {nodes}"
        yield Problem(what, path=path, fix=f"from 0 to {nodes - 1}")


def _check_alone(rendezvous: Mapping[str, Any]) -> Iterator[Problem]:
    """A node that was told where to meet the others is not meant to train in a world of its own."""
    removals = {f"rendezvous.options.{name}": "'~{}'" for name in rendezvous["options"]}
    if rendezvous["endpoint"]:
        removals["rendezvous.endpoint"] = "{}="
    for path, removal in removals.items():
        what = f"rendezvous={rendezvous['name']} meets nobody"
        fix = f"choose rendezvous=c10d, or take it out: {removal.format(path)}"
        yield Problem(what, path=path, fix=fix)


def _check_endpoint(rendezvous: Mapping[str, Any]) -> Iterator[Problem]:
    endpoint, path = rendezvous["endpoint"], "rendezvous.endpoint"
    if str(rendezvous["options"].get("store_type")).strip().lower() == "file":
        if not endpoint:
            fix = "give a path that all nodes can write to: rendezvous.endpoint=/shared/run"
            yield Problem("a file store needs its file", path="rendezvous", fix=fix)
        return
    host, port = _host_and_port(endpoint)
    if not host and (rendezvous["max_nodes"] > 1 or rendezvous["name"] == "static"):
        fix = "give one of them, the same on all: rendezvous.endpoint=host0:29400"
        yield Problem("the nodes need a place to meet", path="rendezvous", fix=fix)
    elif endpoint and not _is_port(port, rendezvous["name"]):
        yield Problem(f"{endpoint!r} is no host:port", path=path, fix="such as host0:29400")


def _check_run_id(values: Mapping[str, Any]) -> Iterator[Problem]:
    if values["run_id"] is None and values["rendezvous"]["max_nodes"] > 1:
        fix = "give all nodes the same: run_id=my-run"
        what = "nodes that meet need the same run id"
        yield Problem(what, path="rendezvous", fix=fix)


def _is_port(port: str, backend: str) -> bool:
    """The port may be left out where the handler has one of its own."""
    if not port:
        return backend != "static"
    return port.isdecimal() and int(port) <= 65535


def _host_and_port(endpoint: str) -> tuple[str, str]:
    """``host:port``, ``[::1]:port``, or a host alone."""
    endpoint = endpoint.strip()
    if endpoint.endswith("]") or ":" not in endpoint:
        return endpoint.strip("[]"), ""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), port or "none"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""What torch's handlers take as options, so that a slip is told before anything is started.

The names are those of torch 2.13. A newer one may take more, and so may whoever replaces one of its
handlers in a registry: what is not known here is warned of, and not refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.problems import Problem, cut, listed
from elastic_fsm.rendezvous.handler import RendezvousParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["TAKEN", "check_options", "warn_of_options"]


class Kind(NamedTuple):
    """What an option takes, in words, and whether a value is that as torch reads it."""

    words: str
    fits: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _is_switch(value: Any) -> bool:
    try:
        RendezvousParameters("any", "", "", 1, 1, switch=value).get_as_bool("switch")
    except ValueError:
        return False
    return True


def _one_of(*names: str) -> Kind:
    return Kind(" or ".join(names), lambda value: str(value).strip().lower() in names)


_ANY = Kind("anything", lambda _: True)
_WHOLE = Kind("a whole number", _is_whole)
_POSITIVE = Kind("a whole number, at least 1", lambda value: _is_whole(value) and int(value) >= 1)
_SWITCH = Kind("true or false", _is_switch)
_PROTOCOL = _one_of("http", "https")

# What c10d and etcd-v2 have in common, one algorithm over two stores.
_DYNAMIC = {
    "join_timeout": _POSITIVE,
    "last_call_timeout": _POSITIVE,
    "close_timeout": _POSITIVE,
    "heartbeat_timeout": _POSITIVE,
    "keep_alive_interval": _POSITIVE,
    "keep_alive_max_attempt": _POSITIVE,
    "read_timeout": _POSITIVE,
}

TAKEN: Mapping[str, Mapping[str, Kind]] = {
    "static": {"timeout": _WHOLE},
    "c10d": {**_DYNAMIC, "store_type": _one_of("tcp", "file"), "is_host": _SWITCH},
    "etcd": {
        "timeout": _WHOLE,
        "last_call_timeout": _WHOLE,
        "etcd_prefix": _ANY,
        "protocol": _PROTOCOL,
        "cert": _ANY,
        "key": _ANY,
        "cacert": _ANY,
    },
    "etcd-v2": {
        **_DYNAMIC,
        "protocol": _PROTOCOL,
        "ssl_cert": _ANY,
        "ssl_cert_key": _ANY,
        "ca_cert": _ANY,
    },
}
"""The options of each backend of torch's; the number of a node of ``static`` is no option."""

# Every handler gets these beside its options, and from somewhere else.
_ELSEWHERE = {
    "backend": "rendezvous.name",
    "endpoint": "rendezvous.endpoint",
    "run_id": "run_id",
    "min_nodes": "rendezvous.min_nodes",
    "max_nodes": "rendezvous.max_nodes",
    "local_addr": "spec.local_addr",
}


def check_options(backend: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    """Options that have their place elsewhere, and values that torch's handlers do not take."""
    for name, value in options.items():
        path, kind = f"rendezvous.options.{name}", TAKEN.get(backend, {}).get(name, _ANY)
        if name in _ELSEWHERE:
            fix = f"give it as {_ELSEWHERE[name]}"
            yield Problem(f"{name} is none of the handler's options", path=path, fix=fix)
        elif value is not None and not kind.fits(value):  # None is not handed over
            yield Problem(f"{cut(value)} does not fit", path=path, fix=f"it takes {kind.words}")


def warn_of_options(backend: str, options: Mapping[str, Any]) -> str:
    """A warning of options that a handler of torch's never looks at; else empty."""
    unused = sorted(set(options) - set(TAKEN.get(backend, options)))
    if not unused:
        return ""
    named = listed([f"rendezvous.options.{name}" for name in unused])
    return f"rendezvous={backend} has no use for {named}; it takes {listed(sorted(TAKEN[backend]))}"

"""A free port for the workers' own meeting place."""

from __future__ import annotations

import random
import socket
from contextlib import closing
from pathlib import Path

__all__ = ["free_port", "why_not_served"]

_CANDIDATES = range(20000, 32768)
_TRIES = 200


def free_port(address: str) -> int:
    """A port that nobody uses on ``address`` now.

    Worker rank 0 binds it only a moment later. Ports that the kernel hands out by itself to
    outgoing connections are left out, so that none of those can take it in between, and the
    choice is random, so that two agents rarely make the same one. Raises ``OSError`` when none
    can be found.
    """
    ephemeral = _ephemeral_ports()
    for port in random.sample(_CANDIDATES, _TRIES):
        if port not in ephemeral and _can_bind(address, port):
            return port
    return _any_port(address)


def why_not_served(port: int) -> str:
    """Why nobody could begin to serve at ``port`` now, in the system's words; else empty.

    Connections of an earlier server that only linger are no hindrance, as they are none for the
    store that worker rank 0 serves.
    """
    both = socket.has_dualstack_ipv6()
    family, everywhere = (socket.AF_INET6, "::") if both else (socket.AF_INET, "")
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if both:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind((everywhere, port))
        except OSError as error:
            return str(error.strerror)
    return ""


def _ephemeral_ports() -> range:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except (OSError, ValueError):
        return range(32768, 61000)
    return range(int(low), int(high) + 1)


def _can_bind(address: str, port: int) -> bool:
    try:
        _bind(address, port)
    except OSError:
        return False
    return True


def _any_port(address: str) -> int:
    return _bind(address, 0)


def _bind(address: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.bind((address, port))
        return int(probe.getsockname()[1])

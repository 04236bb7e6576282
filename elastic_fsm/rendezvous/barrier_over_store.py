"""The exit barrier: a node that is done waits for the others, through the store that they share.

Without it an early finisher looks to the others like a node that is lost. The keys are torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.rendezvous.store_waiting import wait_for_keys

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

__all__ = ["pass_exit_barrier"]

_ROOT = "torchelastic/agent/terminal_state"
_ALL_CAME = f"{_ROOT}/last_member"


def pass_exit_barrier(
    store: Any,
    group_world_size: int,
    timeout: float,
    *,
    interval: float = 0.1,
    stop: threading.Event | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Say that this node is done, and wait until all are; each node must call it once.

    ``meanwhile`` is called after each look. Raises ``TimeoutError`` after ``timeout`` seconds,
    ``Abandoned`` once ``stop`` is set, and what the store raises when it cannot be reached; the
    agents take none of it for a failure. A signal handler may end the wait with an exception.
    """
    number = store.add(f"{_ROOT}/num_members", 1)
    if number == group_world_size:
        store.set(_ALL_CAME, "1")
    try:
        wait_for_keys(
            store,
            [_ALL_CAME],
            timeout=timeout,
            interval=interval,
            stop=stop,
            meanwhile=meanwhile,
        )
    except TimeoutError:
        came = store.add(f"{_ROOT}/num_members", 0)
        raise TimeoutError(
            f"{came} of {group_world_size} nodes are done after {timeout:g} s"
        ) from None

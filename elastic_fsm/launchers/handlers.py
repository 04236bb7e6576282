"""What failed workers may have caught: the signals that they had handlers for.

A stop signal that reaches the workers before the agent makes them fail. A worker that dies of it
says so; one that catches it and exits with a code of its own looks like any other failure, but
for the handlers that the kernel shows until it is reaped.

Python takes its handlers back before it ends, so that nothing is seen of them. Then the workers
that the agent stopped stand for the failed ones, for they mostly run the same program: one that
the signal ended in the middle of its work still shows what it had handlers for.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from elastic_fsm.launchers.procfs import signal_masks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.launchers.running import Running

__all__ = ["caught_signals"]


def caught_signals(workers: Iterable[Running]) -> list[str] | None:
    """Names of the signals that workers had handlers for which failed by themselves.

    None when that cannot be told. To be asked when all have ended and none has been reaped. A
    worker that died of a signal is none of them: that says what ended it.
    """
    workers = list(workers)
    shown = [_handlers(each) for each in workers if each.failed_with_a_code]
    if None in shown:
        others = [_handlers(each) for each in workers if each.stopped_by_agent]
        if not others or None in others:
            return None
        shown += others
    return sorted({name for names in shown if names for name in names})


def _handlers(worker: Running) -> set[str] | None:
    """What a worker that has ended had handlers for, or had blocked, to wait for it some other
    way; None when that is not seen any more."""
    masks = signal_masks(worker.child.pid)
    caught = _names(masks.get("SigCgt", 0))
    # Python ignores SIGXFSZ from its first moment to its last; what it starts by `subprocess`
    # does not. It has a handler for SIGINT until it takes its handlers back.
    is_python = "SIGXFSZ" in _names(masks.get("SigIgn", 0))
    if not masks or (is_python and "SIGINT" not in caught):
        return None
    return caught | _names(masks.get("SigBlk", 0))


def _names(mask: int) -> set[str]:
    return {each.name for each in signal.Signals if mask >> (each - 1) & 1}

"""The names of signals: whether there is one of that name."""

from __future__ import annotations

import signal

from elastic_fsm.problems import cut, did_you_mean

__all__ = ["check_signal_name"]


def check_signal_name(name: object) -> None:
    """Raises ``ValueError`` for what is no signal of this system, with the one that it may mean."""
    known = [each.name for each in signal.Signals]
    if name not in known:
        raise ValueError(f"unknown signal {cut(name)}; {did_you_mean(str(name), known)}")

"""Signals by name, and which of them cannot ask for a stop."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import Problem, cut, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOT_HEARD", "NO_REQUESTS", "refusal", "signal_name"]

_PAUSES = "pauses a process, which then hears nothing more"

NO_REQUESTS = dict.fromkeys(("SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"), _PAUSES) | {
    "SIGCONT": "wakes a process that was paused"
}
"""What cannot ask workers to stop, and why; a worker that gets SIGKILL does stop."""

NOT_HEARD = NO_REQUESTS | {
    "SIGKILL": "cannot be caught",
    "SIGCHLD": "is sent at every end of a child",
}
"""What cannot tell the agent to stop, and why."""


def signal_name(value: Any) -> str:
    """``TERM``, ``sigterm`` and ``15`` are ``SIGTERM``; raises ``ValueError`` for no signal."""
    text = str(value).strip().upper()
    if text.isdigit():
        return signal.Signals(int(text)).name
    name = text if text.startswith("SIG") else f"SIG{text}"
    if name not in signal.Signals.__members__:
        raise ValueError(name)
    return name


def refusal(given: Any, path: str, refused: Mapping[str, str]) -> Problem | None:
    """What is wrong with a signal: there is none of that name, or it is one of the ``refused``,
    which say why."""
    try:
        name = signal_name(given)
    except ValueError:
        known = [entry.name[3:] for entry in signal.Signals if entry.name[3:5] != "RT"]
        hint = did_you_mean(str(given).upper().removeprefix("SIG"), known)
        return Problem(f"there is no signal {cut(given)}", path=path, fix=hint)
    if name not in refused:
        return None
    fix = "SIGTERM, SIGINT or SIGUSR1 can ask for a stop"
    return Problem(f"{name} cannot: it {refused[name]}", path=path, fix=fix)

"""The conditions and delays that come with the agent: pure functions of event and facts."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import LONGEST, parse_duration
from elastic_fsm.failures import shell_code
from elastic_fsm.problems import cut
from elastic_fsm.registry import condition, delay
from elastic_fsm.signal_names import check_signal_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elastic_fsm.events import Event
    from elastic_fsm.facts import Facts

__all__ = [
    "all_succeeded",
    "ended_by",
    "exit_code_in",
    "in_state_for",
    "restart_allowed",
    "restart_delay",
    "signal_in",
    "worker_failed",
]


def _check_signals(signals: Sequence[str]) -> None:
    if not isinstance(signals, list | tuple):
        raise ValueError(f"give a list of signals: [{signals}]")
    for name in signals:
        check_signal_name(name)


def _check_heard(signals: Sequence[str]) -> None:
    _check_signals(signals)
    for name in ("SIGKILL", "SIGSTOP"):
        if name in signals:
            raise ValueError(f"{name} cannot be caught, so that no agent hears it; leave it out")


def _check_exit_codes(codes: Sequence[int | str]) -> None:
    if not isinstance(codes, list | tuple):
        raise ValueError(f"give a list of exit codes: [{codes}]")
    for code in codes:
        if not isinstance(code, str | int) or isinstance(code, bool):
            raise ValueError(f"{cut(code)} is neither an exit code nor the name of a signal")
    _check_signals([code for code in codes if isinstance(code, str)])


def _check_seconds(seconds: Any) -> None:
    if parse_duration(seconds) is None:
        raise ValueError("give a duration")


@condition
def all_succeeded(event: Event, facts: Facts) -> bool:
    """Every worker of this node has ended with 0, by itself.

    One that the agent stopped may end with 0 too, after a checkpoint, but its work is not done.
    """
    done = len(facts.exit_codes) == facts.local_world_size
    return done and not facts.stopped and not any(facts.exit_codes.values())


@condition(events=["worker_exited"])
def worker_failed(event: Event, facts: Facts) -> bool:
    """The worker that ended failed: not with 0, and not because the agent stopped it."""
    return event.data["exit_code"] != 0 and not event.data.get("stopped_by_agent")


@condition
def restart_allowed(event: Event, facts: Facts) -> bool:
    """The budget of restarts is not spent."""
    return facts.restarts_left > 0


@condition(events=["signal_received"], check=_check_heard)
def signal_in(event: Event, facts: Facts, signals: Sequence[str]) -> bool:
    """The agent was sent one of these signals."""
    return event.data["signal"] in signals


@condition(check=_check_signals)
def ended_by(event: Event, facts: Facts, signals: Sequence[str]) -> bool:
    """A worker may have ended by one of these signals, and it was not the agent that sent it.

    It died of the signal, or exited with 128 + n, as shells and many programs do that catch it;
    or it failed with any other code and had a handler for the signal, as far as the launcher
    can tell; where it cannot, that may be so. A handler for SIGINT tells nothing: every Python
    program has one. What a worker *has* ended by is for ``exit_code_in``.
    """
    numbers = {128 + signal.Signals[name] for name in signals}
    if any(shell_code(code) in numbers for code in facts.failures.values()):
        return True
    caught = event.data.get("caught", ())
    telling = [name for name in signals if name != "SIGINT"]
    return bool(telling) if caught is None else any(name in telling for name in caught)


@condition(check=_check_exit_codes)
def exit_code_in(event: Event, facts: Facts, codes: Sequence[int | str]) -> bool:
    """The first failed worker ended with one of these codes, or of one of these signals."""
    first = next(iter(facts.failures.values()), None)
    numbers = {-signal.Signals[code] if isinstance(code, str) else code for code in codes}
    return first in numbers


@condition(check=_check_seconds)
def in_state_for(event: Event, facts: Facts, seconds: Any) -> bool:
    """The machine has been in its state for at least this long."""
    return facts.now - facts.entered_at >= (parse_duration(seconds) or 0.0)


@delay
def restart_delay(facts: Facts, settings: Mapping[str, Any]) -> float:
    """``restart.delay``, times ``restart.factor`` for each restart before, up to a maximum."""
    restart = settings["restart"]
    seconds = parse_duration(restart["delay"]) or 0.0
    longest = parse_duration(restart["max_delay"])
    most = LONGEST if longest is None else longest
    if not seconds:
        return 0.0
    try:
        grown = seconds * float(restart["factor"]) ** (facts.max_restarts - facts.restarts_left)
    except OverflowError:
        grown = most
    return float(min(grown, most))

"""The actions of the coarse machine: each calls one overridable method, and waits for it.

The methods are those of :class:`~elastic_fsm.server.simple.SimpleElasticAgent`, called through
the object, so that a subclass may replace any of them.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import is_told_to_stop
from elastic_fsm.registry import action
from elastic_fsm.rendezvous.errors import RendezvousGracefulExitError, is_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.events import Event
    from elastic_fsm.group import WorkerGroup
    from elastic_fsm.server.coarse import CoarseAgent

__all__ = [
    "begin_monitoring",
    "end_monitoring",
    "initialize_workers",
    "pass_exit_barrier",
    "restart_workers",
    "shut_down",
    "shut_down_at_once",
    "take_workers_down",
]


@action(answers=("workers_initialized", "run_finished"), blocking=True)
def initialize_workers(agent: CoarseAgent, event: Event) -> None:
    """Find ranks and start the workers: ``_initialize_workers``."""
    _start(agent, agent.owner._initialize_workers)


@action(answers=("workers_initialized", "run_finished"), blocking=True)
def restart_workers(agent: CoarseAgent, event: Event) -> None:
    """Stop the workers, find ranks and start them anew: ``_restart_workers``."""
    _start(agent, agent.owner._restart_workers)


def _start(agent: CoarseAgent, method: Callable[[WorkerGroup], None]) -> None:
    agent.begin_attempt()
    try:
        agent.block(method, agent.group)
    except Exception as error:
        if not is_kind(error, RendezvousGracefulExitError):  # it was a spare node
            raise
        agent.answer("run_finished")
    else:
        agent.answer("workers_initialized", **agent.owner._describe_group())


@action(
    answers=("workers_succeeded", "workers_failed", "membership_changed"),
    blocking=True,
)
def begin_monitoring(agent: CoarseAgent, event: Event) -> None:
    """Look at the workers every ``monitor_interval``: ``_monitor_workers``."""
    agent.monitor.begin()


@action
def end_monitoring(agent: CoarseAgent, event: Event) -> None:
    """Look at the workers no more."""
    agent.monitor.end()


@action(answers=("workers_stopped",), blocking=True)
def take_workers_down(agent: CoarseAgent, event: Event) -> None:
    """Stop what is left of a failed group: ``_stop_workers``."""
    agent.block(agent.owner._stop_workers, agent.group)
    agent.answer("workers_stopped")


@action(answers=("barrier_passed",), blocking=True)
def pass_exit_barrier(agent: CoarseAgent, event: Event) -> None:
    """Wait for the other nodes: ``_exit_barrier``."""
    agent.block(agent.owner._exit_barrier)
    agent.answer("barrier_passed")


@action(answers=("workers_stopped",), blocking=True)
def shut_down(agent: CoarseAgent, event: Event) -> None:
    """Stop the workers with the signal that the agent got, else SIGTERM: ``_shutdown``."""
    agent.block(agent.shut_down, _death_signal(agent, event))
    agent.answer("workers_stopped")


def _death_signal(agent: CoarseAgent, event: Event) -> signal.Signals:
    """That of a ``SignalException`` which a method raised by itself counts, too, as with torch."""
    if event.name == "signal_received":
        return signal.Signals[event.data["signal"]]
    cause: Any = agent.cause
    is_one = cause is not None and is_told_to_stop(cause)
    return signal.Signals(cause.sigval) if is_one else signal.SIGTERM


@action(answers=("workers_stopped",), blocking=True)
def shut_down_at_once(agent: CoarseAgent, event: Event) -> None:
    """Cut the grace of the shutdown under way short: ``_shutdown`` with SIGKILL."""
    agent.block(agent.shut_down, signal.SIGKILL, 0)
    agent.answer("workers_stopped")

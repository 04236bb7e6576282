"""The actions that come with the agent: each asks somebody for something and does not wait."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from elastic_fsm.durations import parse_duration
from elastic_fsm.json_text import to_json
from elastic_fsm.problems import cut
from elastic_fsm.registry import action
from elastic_fsm.signal_names import check_signal_name
from elastic_fsm.sources.base import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elastic_fsm.agent import Agent
    from elastic_fsm.events import Event

__all__ = [
    "end_expired_worker",
    "enter_exit_barrier",
    "join_rendezvous",
    "kill_workers",
    "note_failures",
    "note_membership_restart",
    "run_command",
    "signal_workers",
    "spend_restart",
    "start_workers",
    "stop_workers",
]


@action(
    answers=("rendezvous_completed", "rendezvous_failed", "spare_assigned", "run_finished"),
)
def join_rendezvous(agent: Agent, event: Event) -> None:
    """Begin a new attempt: ask the rendezvous for ranks."""
    agent.begin_attempt()
    agent.rendezvous.join(agent.node, agent.group.attempt)


@action(answers=("workers_started", "worker_exited"))
def start_workers(agent: Agent, event: Event) -> None:
    """Start the workers of this node with the ranks that were agreed on."""
    plan = agent.plan()
    agent.outputs.attach(plan)
    agent.launcher.start(plan)


@action(answers=("workers_stopped", "workers_stuck"))
def stop_workers(agent: Agent, event: Event) -> None:
    """Stop all workers: the signal that the agent got, else ``stop.signal``; then SIGKILL."""
    stop = agent.settings["stop"]
    name = event.data["signal"] if event.name == "signal_received" else stop["signal"]
    agent.launcher.stop(agent.group.attempt, name, stop["grace"])


@action
def kill_workers(agent: Agent, event: Event) -> None:
    """Cut the grace of the stop under way short."""
    agent.launcher.kill()


@action(answers=("barrier_passed",))
def enter_exit_barrier(agent: Agent, event: Event) -> None:
    """Tell the other nodes that this one is done, and wait for them."""
    agent.rendezvous.barrier(agent.group.attempt)


@action(optional=True)
def note_failures(agent: Agent, event: Event) -> None:
    """Read what the failed workers left: error files and last lines of standard error."""
    agent.note_failures()


@action
def spend_restart(agent: Agent, event: Event) -> None:
    """Take one restart from the budget."""
    agent.restarts_used += 1


@action
def note_membership_restart(agent: Agent, event: Event) -> None:
    """Count a restart that was nobody's failure; it costs nothing."""
    agent.membership_restarts += 1


def _check_signal(signal: str = "") -> None:
    if signal:
        check_signal_name(signal)


@action(check=_check_signal)
def signal_workers(agent: Agent, event: Event, signal: str = "") -> None:
    """Pass a signal on to the workers, and let them run: the one named here, else the one that
    the agent got, else ``stop.signal``."""
    got = event.data["signal"] if event.name == "signal_received" else ""
    agent.launcher.signal(signal or got or agent.settings["stop"]["signal"])


class EndsWorkers(Protocol):
    """All that is needed to end one whose timer has expired."""

    def end_worker(self, local_rank: int, signal: str, why: str) -> None:
        """Send one worker a signal; its failure has ``why`` as the reason."""


@action
def end_expired_worker(agent: EndsWorkers, event: Event) -> None:
    """End the worker whose timer has expired, by the signal that the timer names, if any.

    Its end is then an event like any other, with the timer as the reason.
    """
    timer = event.data
    if timer["signal"]:
        why = f"its timer {timer['scope']!r} expired after {timer['after']:g} s"
        agent.end_worker(timer["local_rank"], timer["signal"], why)


def _check_command(argv: Any, timeout: Any = None, name: Any = "") -> None:
    words = argv if isinstance(argv, list | tuple) else []
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ValueError("argv must be a list of texts: [notify, --quiet]; there is no shell")
    if not isinstance(name, str):
        raise ValueError(f"name must be text, not {cut(name)}")
    parse_duration(timeout)


@action(tells=("command_finished", "command_failed"), check=_check_command)
def run_command(
    agent: Agent, event: Event, argv: Sequence[str], timeout: Any = "10s", name: str = ""
) -> None:
    """Start a command, with the event as JSON on its standard input; its end is an event."""
    given = {
        "name": event.name,
        "data": dict(event.data),
        "state": agent.machine.state.name,
        "worker_state": agent.group.state.value,
        "attempt": agent.group.attempt,
    }
    agent.commands.run(
        Command(
            name or os.path.basename(argv[0]),
            argv,
            to_json(given) + b"\n",
            timeout=parse_duration(timeout),
            is_last=agent.machine.state.final,
        )
    )

"""The actions that come with the agent: each asks somebody for something and does not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.registry import action

if TYPE_CHECKING:
    from elastic_fsm.agent import Agent
    from elastic_fsm.events import Event

__all__ = [
    "enter_exit_barrier",
    "join_rendezvous",
    "kill_workers",
    "note_failures",
    "note_membership_restart",
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

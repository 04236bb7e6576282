"""What an action does to a configuration. Our own are known by name; any other one only asks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elastic_fsm.exploration.model import Workers

if TYPE_CHECKING:
    from elastic_fsm.exploration.model import Configuration, Outcome

__all__ = ["ENTER_BARRIER", "JOIN", "START", "STOP", "act"]

STOP = "stop_workers"
START = "start_workers"
JOIN = "join_rendezvous"
ENTER_BARRIER = "enter_exit_barrier"
RESTART = "restart_workers"

# Their answers carry the attempt, so that a new attempt makes them stale.
_OF_THE_ATTEMPT = {STOP, START, JOIN, ENTER_BARRIER}


def act(outcome: Outcome, name: str, *, asks: bool) -> None:
    """Let one action work on the configuration of ``outcome``; ``asks``: it will be answered."""
    here = outcome.after
    if name == "spend_restart":
        here = _spend(outcome)
    if name == JOIN:
        here = _new_attempt(outcome)
    if name == START:
        here = _start(outcome)
    if name == RESTART:
        here = _pay(outcome)
    outcome.after = replace(here, asked=here.asked | {name}) if asks else here


def _spend(outcome: Outcome) -> Configuration:
    here = outcome.after
    if here.left == 0:
        outcome.breaks("budget", "a restart is spent when none is left")
    return replace(here, left=here.left - 1, owes=False)


def _new_attempt(outcome: Outcome) -> Configuration:
    here = outcome.after
    if STOP in here.asked:
        what = "a new attempt begins before the stop is answered: the answer is stale"
        outcome.breaks("stops", what)
    workers = here.workers if here.workers.running else Workers.NONE
    return replace(here, asked=here.asked - _OF_THE_ATTEMPT, workers=workers)


def _start(outcome: Outcome) -> Configuration:
    here, dest = outcome.after, outcome.move.dest
    if here.workers.running:
        outcome.breaks("groups", f"{dest} starts workers while others still run")
    elif here.workers is not Workers.NONE:
        what = f"{dest} starts workers again, with no join_rendezvous before it"
        outcome.breaks("groups", what)
    return replace(_pay(outcome), workers=Workers.RUN)


def _pay(outcome: Outcome) -> Configuration:
    """Workers start: a failure before it must have been paid for."""
    here = outcome.after
    if here.owes:
        dest = outcome.move.dest
        what = f"{dest} starts workers again after a failure, and no restart was spent"
        outcome.breaks("budget", what)
    return replace(here, owes=False)

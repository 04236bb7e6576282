"""Which machine fits which agent: the coarse one's actions block, the others ask and go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm import actions
from elastic_fsm.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.machine import Machine

__all__ = ["misfits"]

_OF_ANY_AGENT = {"spend_restart", "note_membership_restart", "end_expired_worker"}
_OF_THE_FULL_AGENT = set(actions.__all__) - _OF_ANY_AGENT


def misfits(machine: Machine, *, coarse: bool) -> Iterator[Problem]:
    """What keeps a machine from being run by an agent, the ``coarse`` one or the full one."""
    used = machine.rules.actions.values()
    if coarse:
        names = sorted({rule.name for rule in used if rule.name in _OF_THE_FULL_AGENT})
        whose = "ask a launcher and a rendezvous, which this agent's own methods stand for"
        fix = "choose machine=coarse, or change that one"
    else:
        names = sorted({rule.name for rule in used if rule.blocking})
        whose = "call methods of a SimpleElasticAgent"
        fix = "choose another machine, such as machine=elastic"
    if names:
        yield Problem(f"these actions {whose}: {', '.join(names)}", path="machine", fix=fix)

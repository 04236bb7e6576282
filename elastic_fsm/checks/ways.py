"""Whether every state and transition can be come to, and every run can come to an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.problems import Problem
from elastic_fsm.reading import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.checks.context import Check, Context
    from elastic_fsm.declaration import TransitionSpec

__all__ = ["CHECKS"]


def _reachable(context: Context) -> Iterator[Problem]:
    if not context.is_whole:
        return
    seen = {context.spec.initial}
    todo = [context.spec.initial]
    while todo:
        new = context.successors(todo.pop()) - seen
        seen |= new
        todo += new
    for state in context.spec.states.values():
        if state.name not in seen:
            fix = "give some transition `dest: " + state.name + "`, or remove the state"
            yield Problem("no sequence of events leads here", path=state.path, fix=fix)


def _ends(context: Context) -> Iterator[Problem]:
    finals = {state.name for state in context.spec.states.values() if state.final}
    if not finals and context.spec.states:
        yield Problem("there is no final state", path="machine.states", fix="add `final: true`")
    if not finals or not context.is_whole:
        return
    ending = set(finals)
    while more := {
        state.name
        for state in context.open_states
        if state.name not in ending and context.successors(state.name) & ending
    }:
        ending |= more
    for state in context.open_states:
        if state.name not in ending:
            fix = "add a transition from here towards a final state"
            yield Problem("a dead end: no final state can be reached", path=state.path, fix=fix)


def _final_states(context: Context) -> Iterator[Problem]:
    for state in context.spec.states.values():
        if state.final and state.exit_code is None:
            fix = "add `exit_code:` with 0 to 255, `worker` or `signal`"
            yield Problem("a final state without an exit code", path=state.path, fix=fix)
        if state.final and state.timeouts:
            yield Problem("a final state waits for nothing", path=f"{state.path}.timeouts")
        if not state.final and state.exit_code is not None:
            fix = "remove it, or add `final: true`"
            yield Problem("only a final state has an exit code", path=state.path, fix=fix)


def _shadowed(context: Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        sources = [
            s for s in (t.source, context.spec.sources(t))[t.from_any] if _is_open(context, s)
        ]
        blockers = {s: b for s in sources if (b := _blocker(context, s, t))}
        if sources and (len(blockers) == len(sources) or (blockers and not t.from_any)):
            names = ", ".join(sorted({f"{b.name} (in {s})" for s, b in blockers.items()}))
            fix = "put it before that one, give it a higher `priority`, or remove it"
            yield Problem(f"never taken: shadowed by {names}", path=t.path, fix=fix)


def _is_open(context: Context, name: str) -> bool:
    state = context.spec.states.get(name)
    return state is not None and not state.final


def _blocker(context: Context, state: str, t: TransitionSpec) -> TransitionSpec | None:
    """The earlier transition that is taken whenever ``t`` would be."""
    candidates = context.spec.candidates(state, t.trigger)
    earlier = candidates[: candidates.index(t)]
    known = [one for one in earlier if one.dest != NOWHERE]
    return next((one for one in known if _needs(one) <= _needs(t)), None)


def _needs(t: TransitionSpec) -> set[str]:
    return {str(use) for use in t.conditions} | {f"unless {use}" for use in t.unless}


CHECKS: tuple[Check, ...] = (_reachable, _ends, _final_states, _shadowed)

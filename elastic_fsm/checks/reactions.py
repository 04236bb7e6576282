"""Whether a state reacts to whatever may come while it lasts, and reacts to it in one way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.events import CATALOGUE
from elastic_fsm.problems import Problem
from elastic_fsm.reading import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.checks.context import Check, Context
    from elastic_fsm.declaration import StateSpec, TransitionSpec, Use

__all__ = ["CHECKS"]


def _fallbacks(context: Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in context.spec.triggers():
            guarded = context.spec.candidates(state.name, event)
            if guarded and context.is_read and not context.has_fallback(state.name, event):
                names = ", ".join(t.name for t in guarded)
                yield Problem(
                    f"nothing is said for {event} when no condition holds ({names})",
                    path=_blame(state, guarded),
                    fix=f"add an unconditional transition, or `ignores: [{event}]` to {state.name}",
                )


def _blame(state: StateSpec, guarded: tuple[TransitionSpec, ...]) -> str:
    """A set of arrows of one state is best mended at its last one; a general one at the state."""
    named = [t for t in guarded if state.name in t.source]
    return named[-1].path if named else state.path


def _notices(context: Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in context.notices:
            if not _reacts(context, state, event):
                fix = f"add a transition for it, or `ignores: [{event}]`"
                what = f"{event} may come here and is neither handled nor ignored"
                yield Problem(what, path=state.path, fix=fix)


def _answers(context: Context) -> Iterator[Problem]:
    seen: set[tuple[str, str, str]] = set()
    for state, uses in _asked_on_the_way(context):
        for use in uses:
            action = context.rules.actions.get(use)
            for event in action.answers if action else ():
                if (state.name, use.name, event) in seen or _reacts(context, state, event):
                    continue
                seen.add((state.name, use.name, event))
                fix = f"add a transition for {event} from {state.name}, or `ignores: [{event}]`"
                what = f"{use.name} may be answered by {event}, and this state has no reaction"
                yield Problem(what, path=state.path, fix=fix)


def _asked_on_the_way(context: Context) -> Iterator[tuple[StateSpec, list[Use]]]:
    """Each non-final state with the actions asked on each way into it."""
    states = context.spec.states
    for source in context.open_states:
        for t in context.taken_from(source.name):
            dest = states.get(t.target(source.name))
            if dest is not None and not dest.final:
                inner = [] if t.dest is None else [*source.on_exit, *dest.on_enter]
                yield dest, [*t.before, *inner, *t.after]


def _reacts(context: Context, state: StateSpec, event: str) -> bool:
    declared = event in state.ignores or bool(context.spec.candidates(state.name, event))
    return declared or not context.is_read


def _timeouts(context: Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in state.timeouts:
            if event in CATALOGUE:
                what = f"{event} is an event of the agent; a timeout needs a name of its own"
                yield Problem(what, path=f"{state.path}.timeouts.{event}")
            elif context.is_read and not context.spec.candidates(state.name, str(event)):
                fix = f"add a transition with `trigger: {event}` from {state.name}"
                what = "a timeout without its transition"
                yield Problem(what, path=f"{state.path}.timeouts.{event}", fix=fix)


def _contradictions(context: Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in state.ignores:
            named = [t for t in context.spec.candidates(state.name, event) if not t.guarded]
            if named and named[0].dest != NOWHERE:
                what = f"{event} is ignored, but {named[0].name} always takes it"
                yield Problem(what, path=f"{state.path}.ignores", fix="keep one of the two")


def _readings(context: Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        for use in (*t.conditions, *t.unless):
            events = context.rules.reads.get(use, ())
            if events and t.trigger in context.events and t.trigger not in events:
                read = " or ".join(events)
                what = f"{use.name} reads {read}; this arrow is triggered by {t.trigger}"
                fix = f"put it on an arrow with `trigger: {events[0]}`, or take it out here"
                yield Problem(what, path=use.path, fix=fix)


CHECKS: tuple[Check, ...] = (_fallbacks, _notices, _answers, _timeouts, _contradictions, _readings)

"""What must hold for any declaration, told before anything starts.

Every check is a small generator over the declaration; all are run, so that a user sees all
problems at once. One slip is one problem: once a misspelt state or event has been reported, the
checks that follow read it as what it probably means, and where that cannot be guessed, nothing
is said about which states can be reached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elastic_fsm.declaration import ANY, SAME
from elastic_fsm.events import CATALOGUE
from elastic_fsm.problems import Problem, closest, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec, StateSpec, TransitionSpec, Use

    Check = Callable[["_Context"], Iterator[Problem]]

__all__ = ["check", "known_events"]


class _Context:
    """The declaration, with what the checks derive from it."""

    def __init__(self, spec: MachineSpec, rules: Rules, events: set[str]) -> None:
        self.spec = spec
        self.rules = rules
        self.events = events
        self.notices = [kind.name for kind in CATALOGUE.values() if kind.notice]
        self.open_states = [state for state in spec.states.values() if not state.final]
        self.is_whole = all(end in spec.states for end in _ends_of_arrows(spec))

    def successors(self, state: str) -> set[str]:
        """States that one transition away from ``state`` may lead to."""
        targets = {t.target(state) for t in self.taken_from(state)}
        return targets & set(self.spec.states)

    def taken_from(self, state: str) -> list[TransitionSpec]:
        """Transitions that can be taken in a state, shadowed ones left out."""
        found = []
        for trigger in self.spec.triggers():
            for transition in self.spec.candidates(state, trigger):
                found.append(transition)
                if not transition.guarded:
                    break
        return found

    def has_fallback(self, state: str, event: str) -> bool:
        """Whether something declared happens to an event, whatever the conditions say."""
        candidates = self.spec.candidates(state, event)
        ignored = event in self.spec.states[state].ignores
        return ignored or any(not t.guarded for t in candidates)


def known_events(spec: MachineSpec, answers: set[str]) -> set[str]:
    """Every event that can occur: the agent's own, answers of actions, timeouts of states."""
    timeouts = {event for state in spec.states.values() for event in state.timeouts}
    return set(CATALOGUE) | answers | timeouts


def check(spec: MachineSpec, rules: Rules, answers: set[str]) -> list[Problem]:
    """All that is wrong with the declaration as a whole; empty when it may run.

    ``answers`` are the events that registered actions may be answered with.
    """
    events = known_events(spec, answers)
    written = _Context(spec, rules, events)
    found = [problem for one in _CHECKS_OF_NAMES for problem in one(written)]
    meant = _Context(_as_meant(spec, events), rules, events) if found else written
    return found + [problem for one in _CHECKS for problem in one(meant)]


def _ends_of_arrows(spec: MachineSpec) -> list[str]:
    """The initial state, and every state that a transition names."""
    named = [end for t in spec.transitions.values() for end in (*t.source, t.dest)]
    return [spec.initial, *(end for end in named if end not in (None, ANY, SAME))]


def _as_meant(spec: MachineSpec, events: set[str]) -> MachineSpec:
    """The declaration with misspelt states and events put right, as far as can be guessed."""

    def state(name: str) -> str:
        return name if name in (ANY, SAME) else closest(name, spec.states) or name

    def event(name: str) -> str:
        return closest(name, events) or name

    return replace(
        spec,
        initial=state(spec.initial),
        states={
            name: replace(s, ignores=tuple(map(event, s.ignores)))
            for name, s in spec.states.items()
        },
        transitions={
            name: replace(
                t,
                trigger=event(t.trigger),
                source=tuple(map(state, t.source)),
                dest=None if t.dest is None else state(t.dest),
            )
            for name, t in spec.transitions.items()
        },
    )


def _initial(context: _Context) -> Iterator[Problem]:
    initial, states = context.spec.initial, context.spec.states
    path = "machine.initial"
    if not initial or not states:
        return
    if initial not in states:
        fix = did_you_mean(initial, states)
        yield Problem(f"unknown state {initial!r}", path=path, fix=fix)
    elif states[initial].final:
        yield Problem(f"the initial state {initial} is final", path=path)


def _arrow_ends(context: _Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        for source in t.source:
            yield from _source(context, t, source)
        if t.dest not in (None, SAME) and t.dest not in context.spec.states:
            fix = did_you_mean(str(t.dest), context.spec.states)
            yield Problem(f"unknown state {t.dest!r}", path=f"{t.path}.dest", fix=fix)


def _source(context: _Context, t: TransitionSpec, source: str) -> Iterator[Problem]:
    state = context.spec.states.get(source)
    path = f"{t.path}.source"
    if source == ANY:
        return
    if state is None:
        fix = did_you_mean(source, [*context.spec.states, ANY])
        yield Problem(f"unknown state {source!r}", path=path, fix=fix)
    elif state.final:
        fix = f"take {source} out of `source`, or `final` off {source}"
        yield Problem(f"a way out of the final state {source}", path=path, fix=fix)


def _events(context: _Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        if t.trigger and t.trigger not in context.events:
            fix = did_you_mean(t.trigger, context.events)
            yield Problem(f"unknown event {t.trigger!r}", path=f"{t.path}.trigger", fix=fix)
    for state in context.spec.states.values():
        for event in state.ignores:
            if event not in context.events:
                fix = did_you_mean(event, context.events)
                yield Problem(f"unknown event {event!r}", path=f"{state.path}.ignores", fix=fix)


def _reachable(context: _Context) -> Iterator[Problem]:
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


def _ends(context: _Context) -> Iterator[Problem]:
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


def _final_states(context: _Context) -> Iterator[Problem]:
    for state in context.spec.states.values():
        if state.final and state.exit_code is None:
            fix = "add `exit_code:` with 0 to 255, `worker` or `signal`"
            yield Problem("a final state without an exit code", path=state.path, fix=fix)
        if state.final and state.timeouts:
            yield Problem("a final state waits for nothing", path=f"{state.path}.timeouts")
        if not state.final and state.exit_code is not None:
            fix = "remove it, or add `final: true`"
            yield Problem("only a final state has an exit code", path=state.path, fix=fix)


def _shadowed(context: _Context) -> Iterator[Problem]:
    for t in context.spec.transitions.values():
        sources = [
            s for s in (t.source, context.spec.sources(t))[t.from_any] if _is_open(context, s)
        ]
        blockers = {s: b for s in sources if (b := _blocker(context, s, t))}
        if sources and (len(blockers) == len(sources) or (blockers and not t.from_any)):
            names = ", ".join(sorted({f"{b.name} (in {s})" for s, b in blockers.items()}))
            fix = "put it before that one, give it a higher `priority`, or remove it"
            yield Problem(f"never taken: shadowed by {names}", path=t.path, fix=fix)


def _is_open(context: _Context, name: str) -> bool:
    state = context.spec.states.get(name)
    return state is not None and not state.final


def _blocker(context: _Context, state: str, t: TransitionSpec) -> TransitionSpec | None:
    """The earlier transition that is taken whenever ``t`` would be."""
    candidates = context.spec.candidates(state, t.trigger)
    earlier = candidates[: candidates.index(t)]
    return next((one for one in earlier if _needs(one) <= _needs(t)), None)


def _needs(t: TransitionSpec) -> set[str]:
    return {str(use) for use in t.conditions} | {f"unless {use}" for use in t.unless}


def _fallbacks(context: _Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in context.spec.triggers():
            guarded = context.spec.candidates(state.name, event)
            if guarded and not context.has_fallback(state.name, event):
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


def _notices(context: _Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in context.notices:
            if not context.spec.candidates(state.name, event) and event not in state.ignores:
                fix = f"add a transition for it, or `ignores: [{event}]`"
                what = f"{event} may come here and is neither handled nor ignored"
                yield Problem(what, path=state.path, fix=fix)


def _answers(context: _Context) -> Iterator[Problem]:
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


def _asked_on_the_way(context: _Context) -> Iterator[tuple[StateSpec, list[Use]]]:
    """Each non-final state with the actions asked on each way into it."""
    states = context.spec.states
    for source in context.open_states:
        for t in context.taken_from(source.name):
            dest = states.get(t.target(source.name))
            if dest is not None and not dest.final:
                inner = [] if t.dest is None else [*source.on_exit, *dest.on_enter]
                yield dest, [*t.before, *inner, *t.after]


def _reacts(context: _Context, state: StateSpec, event: str) -> bool:
    return event in state.ignores or bool(context.spec.candidates(state.name, event))


def _timeouts(context: _Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in state.timeouts:
            if event in CATALOGUE:
                what = f"{event} is an event of the agent; a timeout needs a name of its own"
                yield Problem(what, path=f"{state.path}.timeouts.{event}")
            elif not context.spec.candidates(state.name, str(event)):
                fix = f"add a transition with `trigger: {event}` from {state.name}"
                what = "a timeout without its transition"
                yield Problem(what, path=f"{state.path}.timeouts.{event}", fix=fix)


def _contradictions(context: _Context) -> Iterator[Problem]:
    for state in context.open_states:
        for event in state.ignores:
            named = [t for t in context.spec.candidates(state.name, event) if not t.guarded]
            if named:
                what = f"{event} is ignored, but {named[0].name} always takes it"
                yield Problem(what, path=f"{state.path}.ignores", fix="keep one of the two")


_CHECKS_OF_NAMES: tuple[Check, ...] = (_initial, _arrow_ends, _events)
_CHECKS: tuple[Check, ...] = (
    _reachable,
    _ends,
    _final_states,
    _shadowed,
    _fallbacks,
    _notices,
    _answers,
    _timeouts,
    _contradictions,
)

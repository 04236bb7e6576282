"""The checked declaration plus the current state: an event goes in, a step comes out.

This is the only file that knows the ``transitions`` library. The library asks the conditions of a
transition and changes the state; everything it is given as a callback only *records*, so that a
step is data and the work is done by the agent after the step is in the journal.
Four traps of the library are kept out here: strings are never handed to it (it would import
them), conditions are made real booleans, ``any`` never includes final states, and an event that
a state does not know never reaches it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import transitions

from elastic_fsm.binding import bind
from elastic_fsm.checks import check
from elastic_fsm.declaration import SAME
from elastic_fsm.problems import BadInput
from elastic_fsm.reading import read_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import MachineSpec, StateSpec, TransitionSpec, Use
    from elastic_fsm.events import Event
    from elastic_fsm.facts import Facts
    from elastic_fsm.registry import Registry

__all__ = ["ConditionFailed", "Ignored", "Machine", "Step", "Verdict", "load_machine"]

_LIBRARY_NAME = "elastic_fsm"


class _Quiet(logging.Filter):
    """The library logs some lines for each transition; ours are told by the journal."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.args and str(next(iter(record.args))).startswith(_LIBRARY_NAME))


logging.getLogger("transitions.core").addFilter(_Quiet())


class Verdict(NamedTuple):
    """What one condition said about one transition; ``held`` is after ``unless`` is applied."""

    transition: str
    condition: str
    held: bool


class Step(NamedTuple):
    """A transition taken: data for the journal and the agent.

    ``actions`` are in the order in which they must run: before, on_exit, on_enter, after.
    ``entered`` says whether a state was left and entered, which an internal transition does not.
    """

    transition: str
    trigger: str
    source: str
    dest: str
    entered: bool
    actions: tuple[Use, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class Ignored(NamedTuple):
    """No transition was taken; ``verdicts`` say which conditions refused which transition."""

    trigger: str
    state: str
    verdicts: tuple[Verdict, ...] = ()


class ConditionFailed(Exception):
    """A condition raised; the state is unchanged. The cause is the original exception.

    ``verdicts`` are those of the conditions that were asked before it.
    """

    def __init__(
        self,
        transition: str,
        condition: str,
        cause: BaseException,
        *,
        state: str,
        verdicts: tuple[Verdict, ...],
    ) -> None:
        super().__init__(f"condition {condition} of {transition}: {type(cause).__name__}: {cause}")
        self.transition = transition
        self.condition = condition
        self.state = state
        self.verdicts = verdicts


class _Model:
    """The library's model: a private object, onto which it writes a method for each trigger."""

    _current: str


# The library's own classes, without what is useless here: what they call are always functions, so
# that there is no name to look up, and the journal tells more of it than the lines for a log.


class _Condition(transitions.core.Condition):
    func: Callable[[Any], bool]

    def check(self, event_data: Any) -> bool:
        return self.func(event_data) is self.target


class _Transition(transitions.Transition):
    condition_cls = _Condition


class _State(transitions.State):
    def enter(self, event_data: Any) -> None:
        event_data.machine.callbacks(self.on_enter, event_data)

    def exit(self, event_data: Any) -> None:
        event_data.machine.callbacks(self.on_exit, event_data)


class _Library(transitions.Machine):
    state_cls = _State
    transition_cls = _Transition

    def callbacks(self, funcs: Iterable[Any], event_data: Any) -> None:
        for function in funcs:
            function(event_data)


class Machine:
    """A declaration that has been checked, and where it is now."""

    def __init__(self, spec: MachineSpec, rules: Rules) -> None:
        self.spec = spec
        self.rules = rules
        self._model = _Model()
        self._begin()
        self._library = _Library(
            self._model,
            states=[self._state(state) for state in spec.states.values()],
            initial=spec.initial,
            model_attribute="_current",  # `state`, the default, may be the name of a trigger
            auto_transitions=False,
            send_event=True,
            name=_LIBRARY_NAME,
        )
        for state in spec.states:
            for trigger in spec.triggers():
                for transition in spec.candidates(state, trigger):
                    self._add(transition, state)

    @property
    def state(self) -> StateSpec:
        """The current state."""
        return self.spec.states[self._model._current]

    def step(self, event: Event, facts: Facts) -> Step | Ignored:
        """Take the first transition whose conditions hold; the state is all that changes.

        Raises :class:`ConditionFailed` when a condition raises.
        """
        source = self._model._current
        self._begin()
        known = self._library.events.get(event.name)
        if known is not None and source in known.transitions:
            self._trigger(known, source, (event, facts))
        if self._taken is None:
            return Ignored(event.name, source, tuple(self._verdicts))
        return Step(
            transition=self._taken.name,
            trigger=event.name,
            source=source,
            dest=self._model._current,
            entered=self._taken.dest is not None,
            actions=tuple(self._actions),
            verdicts=tuple(self._verdicts),
        )

    def _trigger(self, event: transitions.Event, source: str, arguments: tuple[Any, ...]) -> None:
        """The first transition whose conditions hold is taken: what ``event.trigger`` of the pinned
        version does, without its queue and hooks, which cost as much again."""
        library = self._library
        data = transitions.EventData(None, event, library, self._model, arguments, {})
        for transition in event.transitions[source]:
            if transition.execute(data):
                break

    def _begin(self) -> None:
        """Nothing is known yet of what the library's callbacks note down during one trigger."""
        self._taken: TransitionSpec | None = None
        self._actions: list[Use] = []
        self._verdicts: list[Verdict] = []

    def _state(self, spec: StateSpec) -> dict[str, Any]:
        return {
            "name": spec.name,
            "on_enter": [self._noting(use) for use in spec.on_enter],
            "on_exit": [self._noting(use) for use in spec.on_exit],
        }

    def _add(self, spec: TransitionSpec, source: str) -> None:
        self._library.add_transition(
            spec.trigger,
            source,
            "=" if spec.dest == SAME else spec.dest,
            conditions=[self._asking(spec, use, holds_when=True) for use in spec.conditions],
            unless=[self._asking(spec, use, holds_when=False) for use in spec.unless],
            before=[self._taking(spec), *(self._noting(use) for use in spec.before)],
            after=[self._noting(use) for use in spec.after],
        )

    def _taking(self, spec: TransitionSpec) -> Callable[[Any], None]:
        def take(_: Any) -> None:
            self._taken = spec

        return take

    def _noting(self, use: Use) -> Callable[[Any], None]:
        def note(_: Any) -> None:
            self._actions.append(use)

        return note

    def _asking(self, spec: TransitionSpec, use: Use, *, holds_when: bool) -> Callable[[Any], bool]:
        function = self.rules.conditions[use]
        text = str(use) if holds_when else f"unless {use}"

        def ask(data: Any) -> bool:
            event, facts = data.args
            try:
                answer = bool(function(event, facts))
            except (Exception, SystemExit) as error:
                asked = tuple(self._verdicts)
                state = self._model._current
                raise ConditionFailed(
                    spec.name, str(use), error, state=state, verdicts=asked
                ) from error
            self._verdicts.append(Verdict(spec.name, text, answer is holds_when))
            return answer

        return ask


def load_machine(data: Any, registry: Registry, settings: Mapping[str, Any]) -> Machine:
    """Read, bind and check a declaration.

    ``settings`` are the run's configuration values, which the declaration may name
    (``stop.signals``). Raises :class:`BadInput` with every problem found.
    """
    spec, problems = read_machine(data)
    rules, unbound = bind(spec, registry, settings)
    problems += unbound + check(spec, rules, registry.answers())
    if problems:
        raise BadInput(problems)
    return Machine(spec, rules)

"""What a declaration may name: conditions, actions and delays, with what the checks must know.

A declaration holds names, never code. The three decorators only *mark* a function; a
:class:`Registry` collects the marked functions of the modules it is given, so that there is no
global table and two runs in one process may know different names.
"""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from elastic_fsm.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

__all__ = ["Kind", "Registry", "Rule", "action", "condition", "delay"]

Kind = Literal["condition", "action", "delay"]
F = TypeVar("F", bound="Callable[..., Any]")

_MARK = "__elastic_fsm_rule__"

# The leading arguments, which the caller supplies; the others are parameters of the declaration.
_SUPPLIED: dict[Kind, str] = {
    "condition": "(event, facts)",
    "action": "(agent, event)",
    "delay": "(facts, settings)",
}


class Rule(NamedTuple):
    """A registered function and what is declared about it."""

    kind: Kind
    name: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    answers: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()
    optional: bool = False
    blocking: bool = False
    check: Callable[..., None] | None = None
    events: tuple[str, ...] = ()
    """Of a condition: the events that it can be asked about, none for any."""
    may_be_never: bool = False

    @property
    def doc(self) -> str:
        """The first sentence of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")


@overload
def condition(function: F, /) -> F: ...
@overload
def condition(
    *, events: Iterable[str] = (), check: Callable[..., None] | None = None
) -> Callable[[F], F]: ...
def condition(
    function: F | None = None,
    /,
    *,
    events: Iterable[str] = (),
    check: Callable[..., None] | None = None,
) -> Any:
    """Mark ``function(event, facts, **parameters) -> bool`` as a condition; it must be pure.

    One that reads the event's data names the ``events`` that have such data: the checks refuse
    it on an arrow with another trigger. ``check(**parameters)`` is called once, at load, and
    raises ``ValueError`` for parameters that cannot work.
    """
    if isinstance(events, str):
        raise TypeError('events is a list of events: events=["worker_exited"]')
    return _mark("condition", function, events=tuple(events), check=check)


@overload
def action(function: F, /) -> F: ...
@overload
def action(
    *,
    answers: Iterable[str] = (),
    tells: Iterable[str] = (),
    optional: bool = False,
    blocking: bool = False,
    check: Callable[..., None] | None = None,
) -> Callable[[F], F]: ...
def action(
    function: F | None = None,
    /,
    *,
    answers: Iterable[str] = (),
    tells: Iterable[str] = (),
    optional: bool = False,
    blocking: bool = False,
    check: Callable[..., None] | None = None,
) -> Any:
    """Mark ``function(agent, event, **parameters) -> None`` as an action.

    ``answers`` are the events that may follow from it: the checks demand that the state which
    waits for them reacts to each; ``tells`` are events that follow and that nobody needs to react
    to. An ``optional`` action (a note, a notification) that raises is only journalled. A
    ``blocking`` one waits for what it does; only a ``SimpleElasticAgent`` runs machines with such
    actions. ``check`` is that of a condition.
    """
    if isinstance(answers, str) or isinstance(tells, str):
        raise TypeError('answers and tells are lists of events: answers=["dug_out"]')
    declared = {"answers": tuple(answers), "tells": tuple(tells)}
    return _mark("action", function, **declared, optional=optional, blocking=blocking, check=check)


@overload
def delay(function: F, /) -> F: ...
@overload
def delay(*, may_be_never: bool = False) -> Callable[[F], F]: ...
def delay(function: F | None = None, /, *, may_be_never: bool = False) -> Any:
    """Mark ``function(facts, settings) -> seconds`` as a delay for a state's timeouts.

    Only one that ``may_be_never`` may return None, for a timer that is not armed: the exploration
    then looks whether the state is left without it, too.
    """
    return _mark("delay", function, may_be_never=may_be_never)


def _mark(kind: Kind, function: F | None, **declared: Any) -> Any:
    def mark(marked: F) -> F:
        setattr(marked, _MARK, _rule(kind, marked, **declared))
        return marked

    return mark if function is None else mark(function)


def _rule(kind: Kind, function: Callable[..., Any], **declared: Any) -> Rule:
    arguments = list(inspect.signature(function).parameters.values())
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{function.__name__} must be a plain function: nobody awaits a {kind}")
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    if [a.kind in kinds for a in arguments[:2]] != [True, True]:
        raise TypeError(
            f"{function.__name__} must begin with {_SUPPLIED[kind]}, as every {kind} does"
        )
    del arguments[:2]
    if not {a.kind for a in arguments} <= {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}:
        what = "a declaration gives its parameters by their names"
        raise TypeError(f"{function.__name__} must name each of its parameters: {what}")
    return Rule(
        kind=kind,
        name=function.__name__,
        function=function,
        parameters=tuple(argument.name for argument in arguments),
        required=tuple(a.name for a in arguments if a.default is Parameter.empty),
        **declared,
    )


class Registry:
    """The rules that a declaration may use, by kind and name.

    ``installed`` gives more modules or marked functions; it is asked once, and only for a name
    that is not known without it.
    """

    def __init__(
        self,
        modules: Iterable[ModuleType] = (),
        *,
        installed: Callable[[], Iterable[object]] | None = None,
    ) -> None:
        self._rules: dict[tuple[Kind, str], Rule] = {}
        self._installed = installed
        for module in modules:
            self.add_module(module)

    def add_module(self, module: ModuleType) -> int:
        """Add all marked functions of a module; returns how many there are.

        Raises ``ValueError`` when another function already has the name: silently replacing a
        rule would change what a declaration means.
        """
        return sum([self._add_marked(value) for value in list(vars(module).values())])

    def _add_marked(self, value: object) -> bool:
        # Asked of a function's own dictionary: some objects have any attribute one asks for.
        rule = getattr(value, "__dict__", {}).get(_MARK)
        if isinstance(rule, Rule):
            self._add(rule)
        return isinstance(rule, Rule)

    def _add_installed(self) -> None:
        """Once, when a name is asked for that nobody knows."""
        installed, self._installed = self._installed, None
        for value in installed() if installed else ():
            if not self._add_marked(value) and inspect.ismodule(value):
                self.add_module(value)

    def _add(self, rule: Rule) -> None:
        known = self._rules.setdefault((rule.kind, rule.name), rule)
        if known.function is not rule.function:
            raise ValueError(
                f"two {rule.kind}s are named {rule.name!r}: "
                f"{known.function.__module__} and {rule.function.__module__}"
            )

    def find(self, kind: Kind, name: str) -> Rule | None:
        """The rule of that name, or None."""
        if (kind, name) not in self._rules:
            self._add_installed()
        return self._rules.get((kind, name))

    def suggest(self, kind: Kind, name: str) -> str:
        """What a misspelt name may have meant."""
        return did_you_mean(name, (known for k, known in self._rules if k == kind))

    def answers(self) -> set[str]:
        """Every event that may follow from some action."""
        return {event for rule in self._rules.values() for event in (*rule.answers, *rule.tells)}

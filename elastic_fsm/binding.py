"""Every name of a declaration, looked up once, at load.

Nothing is resolved for the first time at the moment of a failure: conditions, actions and
timeouts come out of here as plain callables, with parameters checked and dotted names replaced
by the values of the run's settings.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.durations import parse_duration
from elastic_fsm.problems import Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from elastic_fsm.declaration import MachineSpec, StateSpec, Use
    from elastic_fsm.events import Event
    from elastic_fsm.facts import Facts
    from elastic_fsm.registry import Kind, Registry, Rule

__all__ = ["BoundAction", "Condition", "Delay", "Fixed", "Registered", "Rules", "bind"]

Condition = Callable[["Event", "Facts"], bool]

_DOTTED = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)+")


class BoundAction(NamedTuple):
    """An action with its parameters; call it with the agent and the event."""

    name: str
    function: Callable[[Any, Event], None]
    answers: tuple[str, ...]
    optional: bool
    tells: tuple[str, ...] = ()
    blocking: bool = False


class Fixed(NamedTuple):
    """A timer's seconds as they stand in the declaration or in the settings; None is never."""

    seconds: float | None

    def __call__(self, facts: Facts) -> float | None:
        """What it is on any entry of the state."""
        return self.seconds


class Registered(NamedTuple):
    """A delay that is asked anew on each entry of the state."""

    rule: Rule
    settings: Mapping[str, Any]

    def __call__(self, facts: Facts) -> float | None:
        """Seconds; raises ``ValueError`` for what is none, None included unless it is declared."""
        seconds = parse_duration(self.rule.function(facts, self.settings))
        if seconds is None and not self.rule.may_be_never:
            what = f"the delay {self.rule.name} returned None"
            raise ValueError(f"{what}: mark it with @delay(may_be_never=True)")
        return seconds


Delay = Fixed | Registered


@dataclass(slots=True)
class Rules:
    """A declaration's names as callables: conditions and actions by use, delays by state."""

    conditions: dict[Use, Condition] = field(default_factory=dict)
    reads: dict[Use, tuple[str, ...]] = field(default_factory=dict)
    """The only events that a condition can be asked about, where that is not any."""
    actions: dict[Use, BoundAction] = field(default_factory=dict)
    timeouts: dict[str, dict[str, Delay]] = field(default_factory=dict)
    signals: frozenset[str] = frozenset()
    """Every signal that some condition asks for."""

    def heard(self, stop_signals: Iterable[str]) -> frozenset[str]:
        """Every signal that a run listens for: those that end it, and those that are asked for."""
        return self.signals.union(stop_signals)


def bind(
    spec: MachineSpec, registry: Registry, settings: Mapping[str, Any]
) -> tuple[Rules, list[Problem]]:
    """Look up every name of ``spec``; what cannot be found or used is a problem."""
    binder = _Binder(registry, settings)
    for use in dict.fromkeys(_condition_uses(spec)):  # one may be in two that are alike
        binder.condition(use)
    for use in dict.fromkeys(_action_uses(spec)):
        binder.action(use)
    for state in spec.states.values():
        binder.state_timeouts(state)
    binder.rules.signals = frozenset(binder.signals)
    return binder.rules, binder.problems


def _condition_uses(spec: MachineSpec) -> Iterator[Use]:
    for transition in spec.transitions.values():
        yield from transition.conditions
        yield from transition.unless


def _action_uses(spec: MachineSpec) -> Iterator[Use]:
    for transition in spec.transitions.values():
        yield from transition.before
        yield from transition.after
    for state in spec.states.values():
        yield from state.on_enter
        yield from state.on_exit


class _Binder:
    def __init__(self, registry: Registry, settings: Mapping[str, Any]) -> None:
        self.registry = registry
        self.settings = settings
        self.rules = Rules()
        self.problems: list[Problem] = []
        self.signals: set[str] = set()

    def condition(self, use: Use) -> None:
        bound = self._bound("condition", use)
        if bound:
            rule, parameters = bound
            self.rules.conditions[use] = functools.partial(rule.function, **parameters)
            if rule.events:
                self.rules.reads[use] = rule.events
            if rule.name == "signal_in":
                self.signals.update(parameters["signals"])

    def action(self, use: Use) -> None:
        bound = self._bound("action", use)
        if bound:
            rule, parameters = bound
            function = functools.partial(rule.function, **parameters)
            self.rules.actions[use] = BoundAction(
                rule.name, function, rule.answers, rule.optional, rule.tells, rule.blocking
            )

    def _bound(self, kind: Kind, use: Use) -> tuple[Rule, dict[str, Any]] | None:
        rule = self.registry.find(kind, use.name)
        if rule is None:
            fix = self.registry.suggest(kind, use.name)
            self.problems.append(Problem(f"unknown {kind} {use.name!r}", path=use.path, fix=fix))
            return None
        try:
            parameters = _parameters(rule, use, self.settings)
            if rule.check:
                rule.check(**parameters)
        except (TypeError, ValueError) as error:
            self.problems.append(Problem.told(f"{kind} {use.name!r}: {error}", path=use.path))
            return None
        return rule, parameters

    def state_timeouts(self, state: StateSpec) -> None:
        delays = self.rules.timeouts.setdefault(state.name, {})
        for event, value in state.timeouts.items():
            try:
                delays[event] = self._delay(value)
            except ValueError as error:
                path = f"{state.path}.timeouts.{event}"
                self.problems.append(Problem.told(str(error), path=path))

    def _delay(self, value: Any) -> Delay:
        if isinstance(value, str) and value.isidentifier():
            rule = self.registry.find("delay", value)
            if rule is None:
                known = self.registry.suggest("delay", value)
                raise ValueError(f"unknown delay {value!r}; {known}")
            return Registered(rule, self.settings)
        dotted = isinstance(value, str) and _DOTTED.fullmatch(value)
        return Fixed(parse_duration(_value_of(value, self.settings) if dotted else value))


def _parameters(rule: Rule, use: Use, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that a use gives to its rule."""
    given = _named(rule, use.arguments)
    for name in rule.required:
        if name not in given:
            raise ValueError(f"needs the parameter {name!r}: {{{rule.name}: …}}")
    return {name: _setting(value, settings) for name, value in given.items()}


def _named(rule: Rule, arguments: Any) -> Mapping[str, Any]:
    if arguments is None:
        return {}
    if not rule.parameters:
        raise ValueError("takes no parameters")
    if not isinstance(arguments, Mapping):
        return {rule.parameters[0]: arguments}
    for name in arguments:
        if name not in rule.parameters:
            hint = did_you_mean(str(name), rule.parameters)
            raise ValueError(f"unknown parameter {name!r}; {hint}")
    return arguments


def _setting(value: Any, settings: Mapping[str, Any]) -> Any:
    """The value of a dotted name such as ``stop.signals``; anything else as it is.

    Only below a group that exists: a parameter may well be the name of a file or of a host.
    """
    if not isinstance(value, str) or not _DOTTED.fullmatch(value):
        return value
    is_group = isinstance(settings.get(value.partition(".")[0]), Mapping)
    return _value_of(value, settings) if is_group else value


def _value_of(value: str, settings: Mapping[str, Any]) -> Any:
    found: Any = settings
    for key in value.split("."):
        if not isinstance(found, Mapping) or key not in found:
            known = _dotted_names(settings)
            raise ValueError(f"no configuration value {value!r}; {did_you_mean(value, known)}")
        found = found[key]
    return found


def _dotted_names(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _dotted_names(value, f"{prefix}{key}.")
        elif prefix:
            yield f"{prefix}{key}"

"""Conditions in an exploration: known where they follow from a configuration, else free choices.

Within one step a condition is chosen once, so that it and its ``unless`` agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.exploration.model import Workers
from elastic_fsm.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.binding import Rules
    from elastic_fsm.declaration import TransitionSpec, Use
    from elastic_fsm.exploration.model import Configuration

__all__ = ["Chosen", "choices", "kinds_of_signals"]

Chosen = dict[str, bool]
"""Free conditions, as the declaration writes them, and what was chosen for each."""


def choices(
    rules: Rules,
    candidates: Sequence[TransitionSpec],
    here: Configuration,
    event: str,
    data: Mapping[str, Any],
) -> Iterator[tuple[TransitionSpec | None, Chosen]]:
    """Each transition that can be taken (None: none), with the free choices that lead to it."""
    yield from _Choices(rules, here, event, data).among(candidates, {})


class _Choices:
    """One event in one configuration."""

    def __init__(
        self, rules: Rules, here: Configuration, event: str, data: Mapping[str, Any]
    ) -> None:
        self.rules = rules
        self.here = here
        self.event = event
        self.data = data

    def among(
        self, candidates: Sequence[TransitionSpec], chosen: Chosen
    ) -> Iterator[tuple[TransitionSpec | None, Chosen]]:
        if not candidates:
            yield None, chosen
            return
        first, *rest = candidates
        guards = [(use, True) for use in first.conditions] + [(u, False) for u in first.unless]
        for holds, made in self.hold(guards, chosen):
            if holds:
                yield first, made
            else:
                yield from self.among(rest, made)

    def hold(
        self, guards: Sequence[tuple[Use, bool]], chosen: Chosen
    ) -> Iterator[tuple[bool, Chosen]]:
        """Whether all guards of one transition hold, for each way to choose the free ones."""
        if not guards:
            yield True, chosen
            return
        (use, wanted), *rest = guards
        known = chosen.get(str(use), self.known(use))
        for value in (True, False) if known is None else (known,):
            made = {**chosen, str(use): value} if known is None else chosen
            if value is wanted:
                yield from self.hold(rest, made)
            else:
                yield False, made

    def known(self, use: Use) -> bool | None:
        """The truth of a condition, where it follows from the configuration; else None."""
        if use.name == "restart_allowed":
            return self.here.left > 0
        if use.name == "all_succeeded":
            return self.here.workers is Workers.DONE
        if use.name == "worker_failed" and self.event == "worker_exited":
            return self.data["exit_code"] != 0 and not self.data.get("stopped_by_agent")
        if use.name == "signal_in" and "signal" in self.data and use in self.rules.conditions:
            return self.rules.conditions[use](Event(self.event, self.data), Facts())
        return None


def kinds_of_signals(rules: Rules, names: Sequence[str]) -> list[str]:
    """One of the signals for each way in which the declaration may look at them."""
    uses = [use for use in rules.conditions if use.name == "signal_in"]
    kinds: dict[tuple[bool, ...], str] = {}
    for name in names:
        event = Event("signal_received", {"signal": name})
        kinds.setdefault(tuple(rules.conditions[use](event, Facts()) for use in uses), name)
    return list(kinds.values())

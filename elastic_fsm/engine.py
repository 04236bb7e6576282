"""The engine: takes an event, steps the machine, writes the journal, runs the actions.

This is all of the loop, and the only place where these four meet. What an event *means* is in
the declaration; how something is done is behind what an action asks. The engine keeps the timers
of the current state; whom it works for (the workers, their ranks, their failures) is for the
classes on top of it.
"""

from __future__ import annotations

import functools
import traceback
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.failures import place_of
from elastic_fsm.group import WorkerState
from elastic_fsm.journal import describe_step
from elastic_fsm.machine import ConditionFailed, Ignored
from elastic_fsm.problems import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.facts import Facts
    from elastic_fsm.group import RunResult, WorkerGroup
    from elastic_fsm.journal import Journal
    from elastic_fsm.loop import Loop, Timer
    from elastic_fsm.machine import Machine, Step
    from elastic_fsm.sources.base import Source

__all__ = ["EXIT_LOST_CONTROL", "Engine", "Interrupted"]

EXIT_LOST_CONTROL = 70
"""EX_SOFTWARE of sysexits: the agent itself went wrong."""

_MOST_FAILURES_IN_A_ROW = 3
"""An action fails, stopping the workers fails too, and so does the reaction to that: enough."""


class Interrupted(Exception):
    """A blocking action was left: something that matters more is in the inbox."""


class Engine(ABC):
    """Runs a machine until it is in a final state.

    ``settings`` are the run's configuration values (group by group); ``observers`` get every
    journal record, after it was written and the step's actions have been run.
    """

    def __init__(
        self,
        *,
        group: WorkerGroup,
        machine: Machine,
        loop: Loop,
        journal: Journal,
        settings: Mapping[str, Any],
        sources: Sequence[Source] = (),
        observers: Sequence[Callable[[Mapping[str, Any]], None]] = (),
    ) -> None:
        self.group = group
        self.shown = group.state
        self.machine = machine
        self.loop = loop
        self.journal = journal
        self.settings = settings
        self.last_signal = ""  # on which a state was entered; not every one ends the run
        self.error = ""
        self.cause: BaseException | None = None
        self._sources = sources
        self._observers = observers
        self._visit = 0
        self._entered_at = loop.clock.now()
        self._timers: list[Timer] = []
        self._lost_control = False
        self._failures_in_a_row = 0

    # -- what the classes on top supply --------------------------------------------------------

    @abstractmethod
    def note(self, event: Event) -> None:
        """Update what is known from an event, before anybody decides anything."""

    @abstractmethod
    def facts(self) -> Facts:
        """What conditions may read now."""

    @abstractmethod
    def result(self) -> RunResult:
        """How the run ended."""

    @abstractmethod
    def let_go(self) -> None:
        """Kill and reap what is left, and give everything back."""

    @property
    def seconds_in_state(self) -> float:
        """Since the machine entered its state."""
        return self.loop.clock.now() - self._entered_at

    # -- the loop ------------------------------------------------------------------------------

    def run(self) -> RunResult:
        """Run until the machine is in a final state; nothing of it is left alive afterwards."""
        try:
            for source in self._sources:
                source.start()
            self._show(self.machine.state.worker_state)
            self._arm_timers(self.facts())
            self.loop.post(Event("run_requested"))
            while not self.machine.state.final and not self._lost_control:
                self.handle(self.loop.next_event())
        except Exception as error:  # a source or a port, outside of any action
            self.lose_control(error_text(error), error)
            with suppress(Exception):  # an observer, perhaps the one that has just failed
                self.remark("the agent's own code failed", traceback=traceback.format_exc())
        except BaseException:  # KeyboardInterrupt and the like: whoever raised it wants to leave
            self._show(WorkerState.UNKNOWN)
            raise
        finally:
            self.close()
        return self.result()

    def handle(self, event: Event) -> None:
        """One event, from the inbox to the end of its actions.

        The observers are told last: they may be slow, and the actions are urgent.
        """
        if self._is_stale(event):
            self._tell(self._record(event, self.facts(), "stale"))
            return
        if event.name != "action_failed":
            self._failures_in_a_row = 0
        self.note(event)
        facts = self.facts()
        try:
            outcome = self.machine.step(event, facts)
        except ConditionFailed as error:
            self._tell(self._record(event, facts, error))
            self.action_failed(error.condition, str(error), error.__cause__)
            return
        if isinstance(outcome, Ignored):
            self._tell(self._record(event, facts, outcome))
            return
        if outcome.entered:
            self._enter(event, facts)
        record = self._record(event, facts, outcome)
        self._run_actions(outcome, event)
        self._tell(record)

    def close(self) -> None:
        """Let go of everything. Never raises: what fails is noted, and the others are closed."""
        self._cancel_timers()
        sources = [source.close for source in self._sources]
        self.close_each(self.let_go, *sources, self.journal.close)

    def overlook(self, event: Event) -> None:
        """Journal an event that came too late for anything to follow from it."""
        late = Ignored(event.name, self.machine.state.name) if self.machine.state.final else "stale"
        self._tell(self._record(event, self.facts(), late))

    def close_each(self, *parts: Callable[[], object]) -> None:
        """Call all of these, in this order, whatever the others do."""
        for part in parts:
            try:
                part()
            except Exception as error:
                text = f"closing: {error_text(error)}"
                self._blame(text, error)
                with suppress(Exception):  # the journal, or an observer
                    self.remark(text)

    def _is_stale(self, event: Event) -> bool:
        old_attempt = event.attempt is not None and event.attempt != self.group.attempt
        old_visit = event.visit is not None and event.visit != self._visit
        return old_attempt or old_visit

    def _enter(self, event: Event, facts: Facts) -> None:
        """The machine has entered a state: show it, and arm its timers."""
        self._visit += 1
        self._entered_at = facts.now
        if event.name == "signal_received":
            self.last_signal = event.data["signal"]
        self._show(self.machine.state.worker_state)
        self._arm_timers(facts)

    def _show(self, state: WorkerState | None) -> None:
        if state is not None:
            self.shown = self.group.state = state

    def _run_actions(self, step: Step, event: Event) -> None:
        for use in step.actions:
            action = self.machine.rules.actions[use]
            try:
                action.function(self, event)
            except Interrupted:
                return
            except (Exception, SystemExit) as error:
                text = error_text(error)
                if not action.optional:
                    self.action_failed(action.name, text, error)
                    return
                self.remark(f"the action {action.name} failed: {text}")

    def action_failed(self, name: str, error: str, cause: BaseException | None) -> None:
        """Let the declaration say what happens; unless it has ended, or fails over this itself."""
        self._blame(f"{name}: {error}", cause)
        self._failures_in_a_row += 1
        if self.machine.state.final or self._failures_in_a_row == _MOST_FAILURES_IN_A_ROW:
            self.lose_control(error, cause)
        else:
            self.loop.post_first(Event("action_failed", {"name": name, "error": error}))

    def lose_control(self, error: str, cause: BaseException | None = None) -> None:
        """The declaration cannot help any more: the run ends, as UNKNOWN."""
        self._blame(error, cause)
        self._lost_control = True
        self._show(WorkerState.UNKNOWN)

    def _blame(self, error: str, cause: BaseException | None) -> None:
        """The first error is the one that the others followed from."""
        if not self.error:
            place = place_of(cause)
            self.error = f"{error} ({place})" if place else error
            self.cause = cause

    # -- timers --------------------------------------------------------------------------------

    def _arm_timers(self, facts: Facts) -> None:
        self._cancel_timers()
        for name, delay in self.machine.rules.timeouts[self.machine.state.name].items():
            try:
                seconds = delay(facts)
            except (Exception, SystemExit) as error:
                self.action_failed(name, error_text(error), error)
                continue
            if seconds is not None:
                event = Event(name, {"after": seconds}, visit=self._visit)
                post = functools.partial(self.loop.post, event)
                self._timers.append(self.loop.call_later(seconds, post))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # -- the journal ---------------------------------------------------------------------------

    def remark(self, text: str, **more: Any) -> None:
        """Put a note into the journal, and tell the observers."""
        self._tell(self._write({"note": text, **more}))

    def _record(
        self, event: Event, facts: Facts, outcome: Step | Ignored | ConditionFailed | str
    ) -> Mapping[str, Any]:
        return self._write(describe_step(event, facts, outcome))

    def _write(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put a record into the journal; returns it as it was written, for the observers."""
        stamped = {
            "time": self.loop.clock.wall(),
            "monotonic": self.loop.clock.now(),
            **record,
            "worker_state": self.shown.value,
        }
        self.journal.write(stamped)
        return stamped

    def _tell(self, record: Mapping[str, Any]) -> None:
        for observer in self._observers:
            observer(record)

"""Acts a scenario out: the real machine and agent, in virtual time, and what came of it.

Each kind of line is a small function that does to the scripted launcher, rendezvous or loop what
the line says; those with a time are called by a timer. ``end`` leaves the agent's loop by an
exception that is no ``Exception``, which the agent does not take for one of its own.
"""

from __future__ import annotations

import functools
import random
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastic_fsm.events import Event
from elastic_fsm.machine import load_machine
from elastic_fsm.scenario.naming import data_of, wrong_names
from elastic_fsm.scenario.posting import as_done, post
from elastic_fsm.scenario.work import Work
from elastic_fsm.testing.clock import NothingCanHappen
from elastic_fsm.testing.launcher import OnStop
from elastic_fsm.testing.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from elastic_fsm.group import RunResult
    from elastic_fsm.problems import Problem
    from elastic_fsm.registry import Registry
    from elastic_fsm.scenario.script import Happening, Script

__all__ = ["Played", "exit_code_of", "play", "wrong_lines"]

ENDED = ""
STORY_OVER = "when the scenario ends"
NOTHING_LEFT = "for ever: nothing else can happen"
IN_CIRCLES = "for ever: it goes round in circles"

_MOST_EVENTS_AT_ONCE = 10_000
_MOST_EVENTS = 200_000


class _StoryOver(BaseException):
    """The scenario's own end, with the machine in whatever state it is."""

    def __init__(self, ending: str) -> None:
        super().__init__(ending)
        self.ending = ending


class _Circles:
    """An observer that ends a scenario that would not end: one in which time stands still, or,
    unless it says itself when it ends, one with too much in it."""

    def __init__(self, run: Scenario, *, has_end: bool) -> None:
        self._clock = run.loop.clock
        self._has_end = has_end
        self._count = 0
        self._count_now = 0
        self._now = 0.0

    def observe(self, record: Mapping[str, Any]) -> None:
        """A record of the journal."""
        now = self._clock.now()
        self._count += record.get("outcome") == "step"
        self._count_now = self._count_now + 1 if now == self._now else 0
        self._now = now
        too_many = self._count > _MOST_EVENTS and not self._has_end
        if too_many or self._count_now > _MOST_EVENTS_AT_ONCE:
            raise _StoryOver(IN_CIRCLES)


@dataclass(slots=True)
class Played:
    """A scenario after it was played. ``result`` is None when the run had not ended."""

    run: Scenario
    result: RunResult | None
    ending: str

    @property
    def steps(self) -> list[Mapping[str, Any]]:
        """The records of all transitions taken."""
        return [record for record in self.run.records if record.get("outcome") == "step"]

    @property
    def duration(self) -> float:
        """Virtual seconds from the beginning to the end."""
        return self.run.loop.clock.now()

    def time_in_states(self) -> dict[str, float]:
        """Seconds by state, in the order in which the states were first entered."""
        times: dict[str, float] = {}
        since, state = 0.0, self.run.agent.machine.spec.initial
        for step in self.steps:
            now = step["facts"]["now"]
            times[state] = times.get(state, 0.0) + now - since
            since, state = now, step["dest"]
        times[state] = times.get(state, 0.0) + self.duration - since
        return times


def play(script: Script, values: Mapping[str, Any], registry: Registry) -> Played:
    """Play a scenario with a whole configuration.

    Raises :class:`BadInput` when the machine has problems, or with all that is wrong with the
    scenario's lines.
    """
    script.check(wrong_lines(script, values, registry))
    run = Scenario.of(values, registry)
    run.observers.append(_Circles(run, has_end=bool(script.of_kind("end"))).observe)
    for happening in as_done(script):
        act = functools.partial(_ACTS[happening.kind], run, happening)
        if happening.at is None:
            act()
        else:
            run.at(happening.at, act)
    try:
        return Played(run, run.play(), ENDED)
    except _StoryOver as over:
        return Played(run, None, over.ending)
    except NothingCanHappen:
        return Played(run, None, NOTHING_LEFT)


def wrong_lines(script: Script, values: Mapping[str, Any], registry: Registry) -> Iterator[Problem]:
    """Every line that names what there is not in a run with this configuration.

    Raises :class:`BadInput` when the machine has problems.
    """
    machine = load_machine(values["machine"], registry, values)
    workers, stop_signals = values["spec"]["local_world_size"], values["stop"]["signals"]
    return wrong_names(script, machine, workers, stop_signals)


def exit_code_of(values: Mapping[str, Any], default: int = 0) -> int:
    """What a line says about how a worker ends: its code, or -n for a signal."""
    if "SIGNAL" in values:
        return -signal.Signals[values["SIGNAL"]]
    code: int = values.get("CODE", default)
    return code


# -- one small function for each kind of line ------------------------------------------------------


def _exits(run: Scenario, line: Happening) -> None:
    run.launcher.exits(line.values["N"], exit_code_of(line.values))


def _membership(run: Scenario, line: Happening) -> None:
    reason = line.values.get("TEXT", "")
    post(run.loop, Event("membership_changed", {"reason": reason}))


def _signal(run: Scenario, line: Happening) -> None:
    post(run.loop, Event("signal_received", {"signal": line.values["SIGNAL"]}))


def _conduct(run: Scenario, line: Happening) -> None:
    values = line.values
    run.launcher.on_stop[values["N"]] = OnStop(values.get("T"), values.get("CODE"))


def _stuck(run: Scenario, line: Happening) -> None:
    run.launcher.on_stop[line.values["N"]] = OnStop(survives_kill=True)


def _cannot_start(run: Scenario, line: Happening) -> None:
    run.launcher.cannot_start[line.values["N"]] = "cannot be started"


def _on_signal(run: Scenario, line: Happening) -> None:
    run.launcher.on_signal[line.values["SIGNAL"]] = (line.values["T"], 0)


def _command(run: Scenario, line: Happening) -> None:
    values = line.values
    takes, code = run.commands.ends.get(values["NAME"], (0.0, 0))
    run.commands.ends[values["NAME"]] = (values.get("T", takes), values.get("CODE", code))


def _start(run: Scenario, line: Happening) -> None:
    run.launcher.start_takes = line.values.get("T")


def _waits(run: Scenario, line: Happening) -> None:
    run.rendezvous.answering = False


def _answers(run: Scenario, line: Happening) -> None:
    run.rendezvous.answering = True


def _completes(run: Scenario, line: Happening) -> None:
    run.rendezvous.complete()


def _answer(run: Scenario, line: Happening) -> None:
    run.rendezvous.answer(line.values["NAME"], reason="as the scenario says")


def _event(run: Scenario, line: Happening) -> None:
    post(run.loop, Event(line.values["NAME"], data_of(line)))


def _end(run: Scenario, line: Happening) -> None:
    def leave() -> None:
        raise _StoryOver(STORY_OVER)

    run.at(line.values["T"], leave)


def _finish(run: Scenario, line: Happening) -> None:
    run.observers.append(Work(run, line.values["T"], line.values.get("EACH")).observe)


def _failures(run: Scenario, line: Happening) -> None:
    code = exit_code_of(line.values, default=1)
    workers = run.agent.group.spec.local_world_size

    def fail(dice: random.Random) -> None:
        run.launcher.exits(dice.randrange(workers), code)

    _again_and_again(run, line, fail)


def _changes(run: Scenario, line: Happening) -> None:
    def change(dice: random.Random) -> None:
        post(run.loop, Event("membership_changed", {"reason": "as the scenario says"}))

    _again_and_again(run, line, change)


def _again_and_again(
    run: Scenario, line: Happening, happen: Callable[[random.Random], None]
) -> None:
    """At random times with a mean distance; the same seed gives the same times."""
    dice = random.Random(line.values["SEED"])

    def fire() -> None:
        happen(dice)
        arm()

    def arm() -> None:
        run.at(dice.expovariate(1.0 / line.values["EACH"]), fire)

    arm()


_ACTS: dict[str, Callable[[Scenario, Happening], None]] = {
    "exits": _exits,
    "membership": _membership,
    "signal": _signal,
    "conduct": _conduct,
    "stuck": _stuck,
    "cannot_start": _cannot_start,
    "on_signal": _on_signal,
    "command": _command,
    "start": _start,
    "waits": _waits,
    "answers": _answers,
    "completes": _completes,
    "answer": _answer,
    "event": _event,
    "end": _end,
    "finish": _finish,
    "failures": _failures,
    "changes": _changes,
}

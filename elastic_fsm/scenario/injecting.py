"""A scenario against a real run: ``elastic-fsm run --inject FILE``.

The same file that ``simulate`` plays; times count from the start of the agent. A worker can be
killed from outside, so ``dies of SIGNAL`` and ``exits 137`` (as a shell shows a death by signal
9) send that signal to the worker's process group. No other exit code can be forced on a program,
and how real workers start, finish or take a stop is theirs to say: such lines are refused or,
where they only describe the work (``workers finish``), left out.
"""

from __future__ import annotations

import functools
import random
import signal
from typing import TYPE_CHECKING

from elastic_fsm.durations import say_duration
from elastic_fsm.events import Event
from elastic_fsm.problems import Problem
from elastic_fsm.scenario.naming import data_of, wrong_names
from elastic_fsm.scenario.playing import exit_code_of
from elastic_fsm.scenario.posting import as_done, post
from elastic_fsm.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from elastic_fsm.launchers.base import Launcher
    from elastic_fsm.loop import Loop, Timer
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.scenario.script import Happening, Script

__all__ = ["Injection", "injection_problems"]

_LEFT_OUT = ("finish", "on_signal", "end")


def injection_problems(script: Script, run: Prepared) -> Iterator[Problem]:
    """Every line that cannot be played against the real processes of a run."""
    workers, stop_signals = run.spec.local_world_size, run.values["stop"]["signals"]
    yield from wrong_names(script, run.machine, workers, stop_signals)
    for line in script.happenings:
        yield from _impossible(line)


def _impossible(line: Happening) -> Iterator[Problem]:
    if line.kind not in _INJECT and line.kind not in _LEFT_OUT:
        what = "this can be simulated only: it is up to the real program, not to the scenario"
        yield Problem(what, where=line.where, fix="elastic-fsm simulate scenario=FILE")
    elif line.kind in ("exits", "failures") and _signal_of(line) is None:
        what = f"no program can be made to exit with {line.values['CODE']} from outside"
        fix = "write `dies of SIGKILL`" if line.kind == "exits" else "write `by SIGKILL`"
        yield Problem(what, where=line.where, fix=fix)


def _signal_of(line: Happening) -> str | None:
    """The signal that makes a worker end as a line says."""
    code = exit_code_of(line.values, default=-signal.SIGKILL)
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


class Injection(Source):
    """Does what a scenario says, at its times; ``say`` tells the user each time.

    Random failures and changes go on until ``end``, if the scenario has one.
    """

    def __init__(
        self,
        loop: Loop,
        launcher: Launcher,
        script: Script,
        *,
        workers: int,
        say: Callable[[str], None],
    ) -> None:
        self.loop = loop
        self.launcher = launcher
        self.workers = workers
        self._script = script
        self._say = say
        self._began = 0.0
        self._timers: list[Timer] = []

    def start(self) -> None:
        """Arm a timer for each moment."""
        self._began = self.loop.clock.now()
        moments: dict[float, list[Happening]] = {}
        for line in as_done(self._script):
            if line.kind in _RANDOM:
                self._again_and_again(line, random.Random(line.values["SEED"]))
            elif line.at is not None:
                moments.setdefault(line.at, []).append(line)
        for at, lines in moments.items():
            self._later(at, functools.partial(self._do, lines))
        for line in self._script.of_kind("end"):
            self._later(line.values["T"], self.close)

    def close(self) -> None:
        """Nothing more is injected."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def kill(self, local_rank: int, name: str) -> None:
        """Send a signal to one worker, if it runs."""
        sent = self.launcher.signal(name, local_rank)
        rest = "" if sent else ", which does not run"
        self.tell(f"{name} to worker {local_rank}{rest}")

    def post(self, event: Event, what: str) -> None:
        """Let an event happen."""
        self.tell(what)
        post(self.loop, event)

    def tell(self, what: str) -> None:
        """One line to the user."""
        seconds = round(self.loop.clock.now() - self._began, 1)
        self._say(f"injected after {say_duration(seconds)}: {what}")

    def _do(self, lines: Sequence[Happening]) -> None:
        for line in lines:
            _ONCE[line.kind](self, line)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(self.loop.call_later(seconds, call))

    def _again_and_again(self, line: Happening, dice: random.Random) -> None:
        def fire() -> None:
            _RANDOM[line.kind](self, line, dice)
            self._again_and_again(line, dice)

        self._later(dice.expovariate(1.0 / line.values["EACH"]), fire)


# -- one small function for each kind of line ------------------------------------------------------


def _exits(injection: Injection, line: Happening) -> None:
    injection.kill(line.values["N"], _signal_of(line) or "SIGKILL")


def _signal(injection: Injection, line: Happening) -> None:
    name = line.values["SIGNAL"]
    injection.post(Event("signal_received", {"signal": name}), f"{name} to the agent")


def _membership(injection: Injection, line: Happening) -> None:
    reason = line.values.get("TEXT", "injected")
    injection.post(Event("membership_changed", {"reason": reason}), "membership changes")


def _event(injection: Injection, line: Happening) -> None:
    name = line.values["NAME"]
    injection.post(Event(name, data_of(line)), name)


def _failure(injection: Injection, line: Happening, dice: random.Random) -> None:
    injection.kill(dice.randrange(injection.workers), _signal_of(line) or "SIGKILL")


def _change(injection: Injection, line: Happening, dice: random.Random) -> None:
    _membership(injection, line)


_RANDOM: dict[str, Callable[[Injection, Happening, random.Random], None]] = {
    "failures": _failure,
    "changes": _change,
}
_ONCE: dict[str, Callable[[Injection, Happening], None]] = {
    "exits": _exits,
    "signal": _signal,
    "membership": _membership,
    "event": _event,
}
_INJECT = (*_ONCE, *_RANDOM)

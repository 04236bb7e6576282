"""``elastic-fsm simulate``: a scenario played with the user's own run, nothing started.

A scenario's settings are words of the configuration like those of the command line, which come
after them and win: the same file can be tried with another budget, another grace or another
machine.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem
from elastic_fsm.scenario.data import as_data
from elastic_fsm.scenario.forms import MOST_WORKERS, too_many
from elastic_fsm.scenario.playing import Played, play, wrong_lines
from elastic_fsm.scenario.script import read_script
from elastic_fsm.scenario.settings import blaming, key_of, run_of, with_settings_of
from elastic_fsm.scenario.telling import compare, tell, with_outcome
from elastic_fsm.words import Grammar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elastic_fsm.registry import Registry
    from elastic_fsm.scenario.script import Script

__all__ = ["Stage", "look_again", "play_all", "run_verb", "simulate"]


@dataclass(frozen=True, slots=True)
class Stage:
    """What scenarios are played with: overrides, and a job file under them."""

    overrides: Sequence[str] = field(default_factory=list)
    job_file: Path | None = None

    def play(self, script: Script, machine: str = "") -> Played:
        """Play a scenario, with its own machine or another one.

        Raises :class:`BadInput` when it cannot be played.
        """

        def prepare(script: Script) -> tuple[Mapping[str, Any], Registry]:
            return self._prepare(script, "" if "machine" in script.doubtful else machine)

        values, registry = run_of(script, prepare, lambda script, run: wrong_lines(script, *run))
        return play(script, values, registry)

    def _prepare(self, script: Script, machine: str) -> tuple[Mapping[str, Any], Registry]:
        from elastic_fsm.config import compose
        from elastic_fsm.plugins import rules_for

        words = with_settings_of(script, self.overrides, machine)
        job_folder = [self.job_file.parent] if self.job_file else []
        compared = [f"machine={machine}"] if machine and machine not in script.machines else []
        with blaming(script, [*self.overrides, *compared]):
            composed = compose(words, job_file=self.job_file)
            try:
                _check_size(composed.values)
                registry = rules_for(composed.values["plugins"], [*job_folder, script.folder])
                _check_machine(composed.values, registry)
            except BadInput as error:
                raise BadInput(map(composed.locate, error.problems)) from error
        return _with_workers(composed.values), registry


def _check_size(values: Mapping[str, Any]) -> None:
    workers = values["spec"]["local_world_size"]
    if workers != "auto" and workers > MOST_WORKERS:
        raise BadInput([Problem.told(too_many(workers), path="spec.local_world_size")])


def _check_machine(values: Mapping[str, Any], registry: Registry) -> None:
    """Before the scenario is looked at: what is wrong here has a place in the user's files."""
    from elastic_fsm.machine import load_machine
    from elastic_fsm.server.fitting import misfits

    machine = load_machine(values["machine"], registry, values)
    if problems := list(misfits(machine, coarse=False)):
        raise BadInput(problems)


def _with_workers(values: dict[str, Any]) -> dict[str, Any]:
    if values["spec"]["local_world_size"] != "auto":
        return values
    from elastic_fsm.devices import workers_for_auto

    spec = values["spec"] | {"local_world_size": workers_for_auto()}
    return values | {"spec": spec}


def simulate(
    script: Script, stage: Stage, *, machines: Sequence[str] = (), whole: bool = False
) -> str:
    """What comes of a scenario, as text; several machines are put side by side.

    Raises :class:`BadInput` when it cannot be played.
    """
    runs = play_all(script, stage, machines)
    if len(runs) > 1:
        return compare(runs)
    return tell(*runs.values(), whole=whole)


def play_all(script: Script, stage: Stage, machines: Sequence[str] = ()) -> dict[str, Played]:
    """The runs by name of the machine; the name is empty where the words or files choose one.

    A scenario that names several machines is played with each, unless the words choose one.
    Raises :class:`BadInput` when it cannot be played.
    """
    chosen = any(key_of(word) == "machine" for word in stage.overrides)
    names = machines or (() if chosen else script.machines) or ("",)
    return {name: stage.play(script, name) for name in names}


def look_again(script: Script, stage: Stage, *, rewrite: bool = False) -> tuple[str, str]:
    """What came of a scenario when it was last looked at, and what comes of it now.

    With several machines the same must come of it with each; the first that differs is told.
    ``rewrite`` puts what comes of it into the file. Raises :class:`BadInput` as ``simulate``.
    """
    names = script.machines or ("",)
    told = {name: tell(stage.play(script, name)) for name in names}
    first = told[names[0]]
    if rewrite:
        path = script.folder / os.path.basename(script.name)
        path.write_text(with_outcome(script, first))
        script.expected = first
    differing = next((text for text in told.values() if text != script.expected), first)
    return script.expected, differing


_HELP = """\
elastic-fsm simulate scenario=FILE [-c job.yaml] [overrides]

Plays the failures of a scenario against your machine and settings. Nothing is started: the clock
jumps, the launcher is scripted. docs/scenarios.md says what such a file holds.

  --compare machine=a,b   several machines side by side
  --whole                 every step of a long way
  --json                  the way, the times and the outcome as data
  --rewrite               put what came of it into the file
"""


_GRAMMAR = Grammar(
    ["--whole", "--json", "--rewrite"],
    {"-n": "4", "-c": "job.yaml", "--compare": "machine=elastic,fail_fast"},
    last="place",
)


def run_verb(argv: Sequence[str]) -> str:
    """``elastic-fsm simulate`` with these words: what it prints."""
    words = _GRAMMAR.read(argv)
    if "--help" in words.flags:
        return _HELP
    named = [word for word in words.overrides if word.startswith("scenario=")]
    files = [word.removeprefix("scenario=") for word in named]
    files += [str(words.place)] if words.place else []
    if len(files) != 1 or not files[0]:
        raise _no_scenario(files)
    script = read_script(Path(files[0]))
    stage = Stage([word for word in words.overrides if word not in named], words.job_file)
    if "--rewrite" in words.flags:
        look_again(script, stage, rewrite=True)
    compared = words.values.get("--compare")
    machines = _compared(compared[-1]) if compared else ()
    if "--json" in words.flags:
        return json.dumps(as_data(script, play_all(script, stage, machines)), indent=1) + "\n"
    return simulate(script, stage, machines=machines, whole="--whole" in words.flags)


def _compared(text: str) -> list[str]:
    names = [name for name in text.removeprefix("machine=").split(",") if name]
    if len(names) < 2 or "=" in text.removeprefix("machine="):
        fix = "write it as --compare machine=elastic,fail_fast"
        raise BadInput.of("there is nothing to compare", where=COMMAND_LINE, fix=fix)
    return names


def _no_scenario(files: Sequence[str]) -> BadInput:
    what = "one scenario is played at a time" if files and files[0] else "no scenario was named"
    fix = "elastic-fsm simulate scenario=crash.txt; docs/scenarios.md says what such a file holds"
    return BadInput.of(what, where=COMMAND_LINE, fix=fix)

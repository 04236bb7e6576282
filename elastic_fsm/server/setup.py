"""What a run of the Python API needs beside the agent: configuration, machine, journal, loop."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.config import compose
from elastic_fsm.config.masking import masked_texts
from elastic_fsm.group import WorkerState
from elastic_fsm.journal import Journal
from elastic_fsm.journal_header import journal_header
from elastic_fsm.machine import load_machine
from elastic_fsm.narration import state_change
from elastic_fsm.plugins import rules_for
from elastic_fsm.problems import COMMAND_LINE, BadInput
from elastic_fsm.rundir import node_name, open_agent_dir
from elastic_fsm.server.fitting import misfits
from elastic_fsm.server.interrupts import told_to_stop
from elastic_fsm.sources.signals import loop_with_signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.config import Composed
    from elastic_fsm.engine import Engine
    from elastic_fsm.group import RunResult
    from elastic_fsm.loop import Loop
    from elastic_fsm.machine import Machine
    from elastic_fsm.problems import Problem
    from elastic_fsm.rundir import RunDir
    from elastic_fsm.server.interrupts import Interrupts
    from elastic_fsm.sources.signals import Signals

__all__ = ["Running", "Setup", "log_change", "result_or_cause"]

log = logging.getLogger("elastic_fsm")


@dataclass(frozen=True, slots=True)
class Running:
    """What is open while a run goes on."""

    folder: RunDir
    loop: Loop
    signals: Signals
    journal: Journal


@dataclass(frozen=True, slots=True)
class Setup:
    """A configuration that has passed every check."""

    composed: Composed
    plugin_folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, overrides: Sequence[str], job_file: Path | None, *, coarse: bool) -> Setup:
        """Compose the configuration, for a machine that is ``coarse`` or full.

        Raises :class:`BadInput` with all problems found.
        """
        try:
            folders = () if job_file is None else (job_file.absolute().parent,)
            setup = cls(compose(overrides, job_file=job_file), folders)
            problems = [*misfits(setup.machine(), coarse=coarse)]
            if problems:
                raise BadInput(map(setup.composed.locate, problems))
        except BadInput as error:
            raise BadInput(map(_as_seen_from_a_program, error.problems)) from None
        return setup

    @property
    def values(self) -> Mapping[str, Any]:
        """The configuration's values, group by group."""
        return self.composed.values

    @property
    def stop_signals(self) -> list[str]:
        """Names of the signals that end a run."""
        return list(self.values["stop"]["signals"])

    def machine(self) -> Machine:
        """The machine, at its beginning."""
        try:
            rules = rules_for(self.values["plugins"], self.plugin_folders)
            return load_machine(self.values["machine"], rules, self.values)
        except BadInput as error:
            raise BadInput(map(self.composed.locate, error.problems)) from error

    @contextmanager
    def running(self, run_id: str, interrupts: Interrupts) -> Iterator[Running]:
        """Open the journal and take up signals; all is given back at the end.

        Raises :class:`BadInput` when the run directory cannot be used.
        """
        with ExitStack() as opened:
            rules = self.machine().rules
            names = rules.heard(self.stop_signals)
            loop, signals = opened.enter_context(loop_with_signals(names))
            # Afterwards: a stop signal that finds a folder finds, too, who will tell of it there.
            base, run_id = Path(self.values["run_dir"]), self.values["run_id"] or run_id
            folder = open_agent_dir(base, run_id, node_name())
            opened.callback(folder.release)
            texts = masked_texts(rules.actions, self.composed.secrets)
            journal = Journal(folder.journal, log.warning, masked_texts=texts)
            opened.callback(journal.close)
            journal.header(self._header(folder))
            with interrupts.engine_serving(signals):
                yield Running(folder, loop, signals, journal)

    def _header(self, folder: RunDir) -> dict[str, Any]:
        return journal_header(
            self.composed.masked(),
            run_id=folder.run.name,
            host=folder.node.name,
            plugins=self.values["plugins"],
        )


def _as_seen_from_a_program(problem: Problem) -> Problem:
    """Overrides are an argument here; nobody has typed a command line."""
    place, colon, word = problem.where.partition(":")
    if place != COMMAND_LINE:
        return problem
    return problem._replace(where=f"overrides{colon}{word}")


def log_change(record: Mapping[str, Any]) -> None:
    """An observer: each change of state goes to the program's log."""
    line = state_change(record)
    if line is not None:
        log.info("%s", line)


def result_or_cause(engine: Engine, result: RunResult) -> RunResult:
    """What the caller of ``run()`` gets.

    Raises what the agent's own code raised, and ``SignalException`` after a stop.
    """
    if result.state is WorkerState.UNKNOWN:
        raise engine.cause or RuntimeError(engine.error or "the agent lost control")
    if result.state is WorkerState.STOPPED and engine.last_signal:
        raise told_to_stop(signal.Signals[engine.last_signal])
    return result

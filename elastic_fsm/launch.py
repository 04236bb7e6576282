"""The doors to a run: ``run`` for a program, ``execute`` for what has been prepared."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.group import WorkerState
from elastic_fsm.logs.console import Console
from elastic_fsm.preparing import prepare
from elastic_fsm.rundir import cannot_be_written, open_run_dir
from elastic_fsm.session import Session

if TYPE_CHECKING:
    from elastic_fsm.group import RunResult
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.rundir import RunDir
    from elastic_fsm.scenario.script import Script

__all__ = ["execute", "run"]

_PATIENCE = 5.0
"""Seconds that a console gets to take the last lines, where it must not hold up the end."""


def run(config: Any) -> RunResult:
    """Run a configuration: a DictConfig (``cfg.agent``), a ``RunConfig`` or a mapping.

    Must be called in the main thread for signals to be taken up. Raises :class:`BadInput`
    before anything starts when the configuration cannot be run.
    """
    from elastic_fsm.config import resolve

    return execute(prepare(resolve(config)), sole_owner=False)


def execute(prepared: Prepared, *, sole_owner: bool, injected: Script | None = None) -> RunResult:
    """Run it, and report. ``sole_owner``: this process has no children but the agent's.

    The failures of the scenario ``injected`` are played against the workers.
    Raises :class:`BadInput` when the run directory cannot be used.
    """
    values = prepared.values
    folder = open_run_dir(Path(values["run_dir"]), prepared.run_id, prepared.host)
    console = Console()
    try:
        _save_config(prepared, folder)
        _start(console)
        result = Session(prepared, folder, console, injected).run(sole_owner=sole_owner)
        console.close(_PATIENCE if result.state is WorkerState.STOPPED else None)
    finally:
        console.close(_PATIENCE)
        folder.release()
    return result


def _start(console: Console) -> None:
    try:
        console.start()
    except RuntimeError as error:  # no more threads for this user
        raise OSError(errno.EAGAIN, str(error)) from error


def _save_config(prepared: Prepared, folder: RunDir) -> None:
    try:
        folder.config.write_text(prepared.composed.to_yaml(), encoding="utf-8")
    except OSError as error:
        raise cannot_be_written(error, folder.config) from error

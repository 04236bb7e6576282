"""The doors to a run: ``run`` for a program, ``execute`` for what has been prepared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.logs.console import Console
from elastic_fsm.preparing import prepare
from elastic_fsm.rundir import cannot_be_written, open_run_dir
from elastic_fsm.session import Session

if TYPE_CHECKING:
    from elastic_fsm.group import RunResult
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.scenario.script import Script

__all__ = ["execute", "run"]


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
    try:
        folder.config.write_text(prepared.composed.to_yaml())
    except OSError as error:
        raise cannot_be_written(error, folder.config) from error
    console = Console()
    console.start()
    session = Session(prepared, folder, console, injected)
    try:
        return session.run(sole_owner=sole_owner)
    finally:
        console.close()
        folder.release()

"""The doors to a run: ``run`` for a program, ``execute`` for what has been prepared."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.group import WorkerState
from elastic_fsm.logs.console import Console
from elastic_fsm.outputs import make_files
from elastic_fsm.preparing import prepare, preview
from elastic_fsm.rendezvous.choice import is_standalone
from elastic_fsm.rundir import open_agent_dir, open_run_dir
from elastic_fsm.runtime import open_runtime
from elastic_fsm.session import PATIENCE, Session
from elastic_fsm.watchdogs import check_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.group import RunResult
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.rundir import RunDir
    from elastic_fsm.scenario.script import Script

__all__ = ["execute", "run"]


def run(config: Any) -> RunResult:
    """Run a configuration: a DictConfig (``cfg.agent``), a ``RunConfig`` or a mapping.

    Must be called in the main thread for signals to be taken up. Raises :class:`BadInput`
    before anything starts when the configuration cannot be run.
    """
    from elastic_fsm.config import resolve
    from elastic_fsm.config.origins import PROGRAM

    return execute(prepare(resolve(config), place=PROGRAM), sole_owner=False)


def execute(
    prepared: Prepared,
    *,
    sole_owner: bool,
    injected: Script | None = None,
    shares_run_id: bool = False,
    decided: Callable[[int, float], object] = lambda exit_code, patience: None,
) -> RunResult:
    """Run it, and report. ``sole_owner``: this process has no children but the agent's.
    ``decided`` is called when the run is over, before the program has its signals back, with the
    exit code and the seconds that a console which takes nothing may still keep it.
    ``shares_run_id``: other agents of this host may have the same run id, as those of one
    rendezvous do.

    The failures of the scenario ``injected`` are played against the workers.
    Raises :class:`BadInput` when the run directory cannot be used, or the environment asks for
    what cannot be; ``OSError`` where there are no more threads or processes to be had.
    """
    check_environment()
    console = Console()
    with ExitStack() as opened:
        opened.callback(console.close, PATIENCE)
        _start(console)
        with open_runtime(prepared, console.say, sole_owner=sole_owner) as runtime:
            # The folder comes last: see `runtime`.
            folder = _open_folder(prepared, shares_run_id=shares_run_id)
            opened.callback(folder.release)
            session = Session(prepared, folder, console, injected)
            result, show_report = session.run(runtime)
            decided(result.exit_code, PATIENCE)
        show_report()
        console.close(PATIENCE if result.state is WorkerState.STOPPED else None)
    return result


def _open_folder(prepared: Prepared, *, shares_run_id: bool) -> RunDir:
    values = prepared.values
    shares_run_id = shares_run_id or not is_standalone(values["rendezvous"])
    open_dir = open_agent_dir if shares_run_id else open_run_dir
    first_files = partial(_make_first_files, prepared)
    return open_dir(Path(values["run_dir"]), prepared.run_id, prepared.host, first_files)


def _start(console: Console) -> None:
    try:
        console.start()
    except RuntimeError as error:  # no more threads for this user
        what = f"the thread that writes to the console cannot be started: {error}"
        raise OSError(errno.EAGAIN, what) from error


def _make_first_files(prepared: Prepared, folder: RunDir) -> None:
    """Before anything starts: on a full disk the first attempt would fail for want of its logs."""
    folder.unfinished_config.write_text(prepared.composed.to_yaml(), encoding="utf-8")
    make_files(preview(prepared, folder.first_attempt, node_dir=folder.node))

"""The folder of a run: ``<run_dir>/<run_id>/<node>/`` with a folder for each attempt in it.

Nothing in it is ever deleted or overwritten. Using a run id again goes on with the attempt
numbers; journal and report of the earlier run get a number and stay.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastic_fsm.lockfile import lock
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = [
    "InUse",
    "RunDir",
    "new_run_id",
    "node_name",
    "open_agent_dir",
    "open_run_dir",
]

# File systems of clusters may know no locks; a run there is not guarded against a second one.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


def new_run_id() -> str:
    """A name that sorts by time and is not used by anybody else."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def node_name() -> str:
    """This host's own name; asks no name service, which may take half a minute."""
    return socket.gethostname() or "localhost"


class InUse(BadInput):
    """Another agent has the run's folder on this node."""


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of a run on this node, held by this agent alone until the process ends."""

    run: Path
    node: Path
    first_attempt: int
    lock: int

    @property
    def journal(self) -> Path:
        """The journal of the run in progress."""
        return self.node / "journal.jsonl"

    @property
    def report(self) -> Path:
        """What the last finished run says of itself."""
        return self.node / "report.json"

    @property
    def config(self) -> Path:
        """The resolved configuration, secrets masked."""
        return self.node / "run.yaml"

    @property
    def unfinished_config(self) -> Path:
        """Where it is written while the one of an earlier run is still in its place."""
        return self.node / "run.yaml.part"

    def release(self) -> None:
        """Let another agent use the run id."""
        os.close(self.lock)


def open_run_dir(
    base: Path, run_id: str, node: str, first_files: Callable[[RunDir], object] | None = None
) -> RunDir:
    """Make the folder, or go on in it.

    ``first_files`` makes what a run cannot begin without: the folder of its first attempt, and the
    configuration at ``unfinished_config``. Only when they are there, what an earlier run has left
    gets its number; before that, what fails leaves everything as it was.

    Raises :class:`BadInput` when it cannot be written or another agent is using it.
    """
    run = base.absolute() / run_id
    node_dir = run / node
    with ExitStack() as undo:
        try:
            missing = [path for path in (node_dir, *node_dir.parents) if not path.exists()]
            undo.callback(_remove_empty, missing)
            node_dir.mkdir(parents=True, exist_ok=True)
            held = _lock(node_dir)
            undo.callback(os.close, held)
            folder = RunDir(run, node_dir, _next_number(node_dir, "attempt_*", "attempt_"), held)
            undo.callback(_remove_made, folder, is_new=node_dir in missing)
            _write_pid(held)
            if first_files is not None:
                first_files(folder)
            _keep_earlier(node_dir)
            if first_files is not None:
                folder.unfinished_config.replace(folder.config)
        except OSError as error:
            raise _cannot_be_written(error, node_dir) from error
        undo.pop_all()
    _point_latest(base.absolute(), run_id)
    return folder


def open_agent_dir(
    base: Path, run_id: str, node: str, first_files: Callable[[RunDir], object] | None = None
) -> RunDir:
    """A folder of this agent's own: more than one agent of a run may be on this host.

    Raises :class:`BadInput` when none can be written.
    """
    names = itertools.chain([node], (f"{node}.{number}" for number in itertools.count(2)))
    for name in names:
        with suppress(InUse):
            return open_run_dir(base, run_id, name, first_files)
    raise AssertionError("there is always another number")


def _cannot_be_written(error: OSError, folder: Path) -> BadInput:
    """The finding for a folder that is read-only, full, or no folder at all."""
    return BadInput.of(
        f"the run directory cannot be written: {error.strerror}: {error.filename or folder}",
        path="run_dir",
        fix="choose another place: run_dir=PATH",
    )


def _remove_empty(folders: Iterable[Path]) -> None:
    """Those that were missing, the innermost first; others may have put something there by now."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _remove_made(folder: RunDir, *, is_new: bool) -> None:
    """What a run that cannot begin has made so far."""
    import shutil  # slow to load, and hardly ever needed

    attempt = folder.node / f"attempt_{folder.first_attempt}"
    shutil.rmtree(folder.node if is_new else attempt, ignore_errors=True)
    with suppress(OSError):
        folder.unfinished_config.unlink()


def _lock(folder: Path) -> int:
    descriptor = os.open(folder / "agent.pid", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        lock(descriptor)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise InUse.of(
            f"the run id is in use by the agent with pid {holder}: {folder}",
            path="run_id",
            fix="choose another run_id, or wait for that run to end",
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(descriptor)
            raise
    return descriptor


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, os.write(descriptor, f"{os.getpid()}\n".encode()))


def _keep_earlier(folder: Path) -> None:
    """Number the files of an earlier run with this id: ``journal.0.jsonl`` and so on."""
    names = [name.split(".") for name in ("journal.jsonl", "report.json", "run.yaml")]
    # One number for the three, though an agent that was killed may not have written all.
    number = max(_next_number(folder, f"{stem}.*.{suffix}", f"{stem}.") for stem, suffix in names)
    for stem, suffix in names:
        name = f"{stem}.{suffix}"
        if (folder / name).exists():
            (folder / name).rename(folder / f"{stem}.{number}.{suffix}")
    for part in folder.glob("journal-*.jsonl"):  # the files of a long journal stay together
        part.rename(folder / part.name.replace("journal-", f"journal.{number}-", 1))


def _next_number(folder: Path, pattern: str, prefix: str) -> int:
    texts = [path.name.removeprefix(prefix).split(".")[0] for path in folder.glob(pattern)]
    return max((int(text) for text in texts if text.isdecimal()), default=-1) + 1


def _point_latest(base: Path, run_id: str) -> None:
    """Move the link ``latest``, in one step; a file or folder of that name is left alone."""
    latest = base / "latest"
    if latest.exists() and not latest.is_symlink():
        return
    fresh = base / f".latest.{secrets.token_hex(4)}"
    with suppress(OSError):  # a file system without links: the run does without, too
        fresh.symlink_to(run_id, target_is_directory=True)
        fresh.replace(latest)

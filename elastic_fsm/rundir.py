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
    from pathlib import Path

__all__ = [
    "InUse",
    "RunDir",
    "cannot_be_written",
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

    def release(self) -> None:
        """Let another agent use the run id."""
        os.close(self.lock)


def open_run_dir(base: Path, run_id: str, node: str) -> RunDir:
    """Make the folder, or go on in it.

    Raises :class:`BadInput` when it cannot be written or another agent is using it.
    """
    run = base.absolute() / run_id
    folder = run / node
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held_lock = _lock(folder)
            held.callback(os.close, held_lock)
            first_attempt = _next_number(folder, "attempt_*", "attempt_")
            _keep_earlier(folder)
        except OSError as error:
            raise cannot_be_written(error, folder) from error
        held.pop_all()
    _point_latest(base.absolute(), run_id)
    return RunDir(run, folder, first_attempt, held_lock)


def open_agent_dir(base: Path, run_id: str, node: str) -> RunDir:
    """A folder of this agent's own: more than one agent of a run may be on this host.

    Raises :class:`BadInput` when none can be written.
    """
    names = itertools.chain([node], (f"{node}.{number}" for number in itertools.count(2)))
    for name in names:
        with suppress(InUse):
            return open_run_dir(base, run_id, name)
    raise AssertionError("there is always another number")


def cannot_be_written(error: OSError, folder: Path) -> BadInput:
    """The finding for a folder that is read-only, full, or no folder at all."""
    return BadInput.of(
        f"the run directory cannot be written: {error.strerror}: {error.filename or folder}",
        path="run_dir",
        fix="choose another place: run_dir=PATH",
    )


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
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


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

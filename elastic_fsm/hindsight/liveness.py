"""Whether a run's agent is alive: it holds a lock on ``agent.pid`` until its process ends.

The kernel gives the lock back however the process ends, and knows nothing of pids that are used
again. It is only asked about, never taken: an agent that starts in this very moment gets it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from elastic_fsm.journal_reader import read_journal
from elastic_fsm.lockfile import is_locked

if TYPE_CHECKING:
    from pathlib import Path

    from elastic_fsm.journal_reader import JournalFile

__all__ = ["agent_is_alive", "agent_of", "agent_pid", "read_up_to_now"]


def agent_is_alive(node: Path) -> bool | None:
    """Whether the agent of a node's folder runs; None where the file system cannot tell."""
    try:
        descriptor = os.open(node / "agent.pid", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return is_locked(descriptor)
    except OSError:  # no locks there, as on some file systems of clusters
        return None
    finally:
        os.close(descriptor)


def agent_pid(node: Path) -> int | None:
    """The pid of the last agent that used the folder."""
    try:
        return int((node / "agent.pid").read_text())
    except (OSError, ValueError):
        return None


def agent_of(journal: JournalFile) -> bool | None:
    """Whether the agent that writes a journal runs; nobody writes that of an earlier run."""
    newest = journal.path.name == "journal.jsonl"
    return agent_is_alive(journal.path.parent) if newest else False


def read_up_to_now(path: Path) -> JournalFile:
    """See :func:`read_journal`; of a run that is under way, the last stay goes on to this moment.

    Of a healthy run the last line may be days old.
    """
    journal = read_journal(path)
    summary = journal.summary
    if summary.last_time is not None and not journal.final and agent_of(journal):
        summary.now += max(0.0, time.time() - summary.last_time)
        summary.last_time = max(time.time(), summary.last_time)
    return journal

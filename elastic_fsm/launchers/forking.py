"""Functions in forks of the agent's own process: nothing is pickled, so closures work too.

The descriptors of the program stay open, as ``multiprocessing`` leaves them: a closure may use
them. The usual caution holds: a fork of a program with threads has their locks, but not them.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from elastic_fsm.launchers.child import call_in_fork, default_signals
from elastic_fsm.launchers.functions import Outcome
from elastic_fsm.launchers.starters import Child, CommandStarter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.launchers.streams import Streams

__all__ = ["ForkStarter"]


class ForkStarter(CommandStarter):
    """Functions, each in a fork of this process; commands, too."""

    def start(self, worker: WorkerPlan, env: Mapping[str, str], streams: Streams) -> Child:
        """See :meth:`Starter.start`."""
        if worker.function is None:
            return super().start(worker, env, streams)
        outcome = Outcome()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # what is in its buffer would be written twice
                stream.flush()
        with ExitStack() as in_vain:
            in_vain.callback(outcome.close)
            has_session, in_session = _pipe(in_vain)
            held, hold = _pipe(in_vain)
            with _signals_blocked() as mask:
                pid = _fork()
                if pid == 0:
                    os.close(hold)
                    _be_worker(worker, env, streams, outcome, in_session, held, mask)
            in_vain.pop_all()
        os.close(in_session)
        os.close(held)
        os.read(has_session, 1)  # ends at once: its group can be signalled from now on
        os.close(has_session)
        return Child(pid, partial(os.waitpid, pid, 0), hold=hold, outcome=outcome)


def _pipe(in_vain: ExitStack) -> tuple[int, int]:
    """Both ends, closed with the stack."""
    ends = os.pipe()
    for end in ends:
        in_vain.callback(os.close, end)
    return ends


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of threads. Ours hold no lock that the worker needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@contextmanager
def _signals_blocked() -> Iterator[set[signal.Signals]]:
    """In the child, the agent's handlers must not run: they would write into the agent's loop."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield before  # type: ignore[misc]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _be_worker(
    worker: WorkerPlan,
    env: Mapping[str, str],
    streams: Streams,
    outcome: Outcome,
    in_session: int,
    held: int,
    mask: set[signal.Signals],
) -> NoReturn:
    """In the child; comes back under no circumstances."""
    try:
        os.setsid()
        os.close(in_session)
        if not os.read(held, 1):
            os._exit(0)
        os.close(held)
        default_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for target, stream in enumerate(streams):
            if stream is not None:
                os.dup2(stream, target)
        os.environ.clear()
        os.environ.update(env)
        if worker.cwd is not None:
            os.chdir(worker.cwd)
        assert worker.function is not None
        call_in_fork(worker.function, worker.args, outcome.fileno())
    finally:
        os._exit(1)

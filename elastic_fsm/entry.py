"""The command line's way in: signals first, everything else later.

Until the agent listens to signals itself, one that wants the program to end does so at once,
without a traceback: nothing has been started yet. The handlers are set before anything slow is
imported. After the run they have a say in how long the program stays, and none in its exit code.

For the same reason the garbage collector waits until everything is loaded: nearly all that is
made until then stays, and looking through it again and again is a tenth of the time.
"""

from __future__ import annotations

import atexit
import gc
import os
import select
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

__all__ = ["enter", "leaving"]

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def enter(*words: str) -> None:
    """Run the command line of this process, with these words before it, and exit."""
    gc.disable()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited ignore would reap our workers
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leaving)
    atexit.register(_ignore_stops)  # the first to be registered is the last to be called
    # Whoever started us may have blocked them (a thread that takes no signals); no stop would
    # reach us then, nor the workers, which inherit what is blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    from elastic_fsm.cli import run_command_line

    sys.exit(run_command_line([*words, *sys.argv[1:]]))


class Leaving:
    """What a stop signal does while no agent takes it up."""

    def __init__(self) -> None:
        self._decided: tuple[int, float] | None = None

    def decide(self, exit_code: int, patience: float) -> None:
        """The run is over. A stop signal that comes now only limits how long a console that takes
        nothing may keep this process: ``patience`` seconds."""
        self._decided = exit_code, patience

    def __call__(self, number: int, frame: Any) -> None:
        """The handler."""
        if self._decided is None:
            self._leave_now(number)
        elif not signal.getitimer(signal.ITIMER_REAL)[0]:
            exit_code, patience = self._decided
            signal.signal(signal.SIGALRM, lambda *_: os._exit(exit_code))
            signal.setitimer(signal.ITIMER_REAL, patience)

    def _leave_now(self, number: int) -> None:
        with suppress(OSError, ValueError):  # a console that takes nothing must not keep us
            if select.select([], [2], [], 0)[1]:
                os.write(2, f"elastic-fsm: {signal.Signals(number).name}\n".encode())
        os._exit(128 + number)


leaving = Leaving()


def _ignore_stops() -> None:
    """Nothing is left to do. The interpreter, as it shuts down, gives signals back their default
    effect, and one that comes then would put itself in the place of the exit code."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)

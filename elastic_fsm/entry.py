"""The command line's way in: signals first, everything else later.

Until the agent listens to signals itself, one that wants the program to end does so at once,
without a traceback: nothing has been started yet. The handlers are set before anything slow is
imported.

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

__all__ = ["enter"]

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def enter(*words: str) -> None:
    """Run the command line of this process, with these words before it, and exit."""
    gc.disable()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited ignore would reap our workers
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    atexit.register(_ignore_stops)  # the first to be registered is the last to be called
    # Whoever started us may have blocked them (a thread that takes no signals); no stop would
    # reach us then, nor the workers, which inherit what is blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    from elastic_fsm.cli import run_command_line

    sys.exit(run_command_line([*words, *sys.argv[1:]]))


def _ignore_stops() -> None:
    """The exit code is decided. The interpreter, as it shuts down, gives signals back their default
    effect, and one that comes then would put itself in the place of that code."""
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int, frame: Any) -> None:
    with suppress(OSError, ValueError):  # a console that takes nothing must not keep us
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"elastic-fsm: {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)

"""The command ``elastic-fsm``.

Until the agent listens to signals itself, one that wants the program to end does so at once,
without a traceback: nothing has been started yet. The handlers are set before anything slow is
imported.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

__all__ = ["main"]

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    """Run the command line of this process, and exit."""
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    from elastic_fsm.cli import run_command_line

    sys.exit(run_command_line(sys.argv[1:]))


def _leave(number: int, frame: Any) -> None:
    os.write(2, f"elastic-fsm: {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)


if __name__ == "__main__":
    main()

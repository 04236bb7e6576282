"""The command ``elastic-fsm``."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process, and exit."""
    # The part of `signal` that is written in C. The other part takes milliseconds to load, and
    # until then Ctrl-C would show a traceback.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from elastic_fsm.entry import enter

    enter()


if __name__ == "__main__":
    main()

"""Which of the followed files have changed: told by inotify, or by the clock without it.

A file is armed before it is read, tells of one write, and then is silent until it is armed
again. So a worker that writes line by line pays for the first line of a batch only, and files
that are not read, because the console is stopped, wake nobody.

A file is watched through its descriptor, so that the watch is on the very file that is read,
whatever its path has come to mean. Two followed paths may be links to one file: the kernel gives
them one watch, and both are reported.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.logs.inotify import Inotify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.logs.tail import Tail

__all__ = ["LOOK_EVERY", "Watches"]

# Seconds between two looks at a file that inotify cannot watch.
LOOK_EVERY = 0.2


class Watches:
    """The watches on the followed files."""

    def __init__(self) -> None:
        self._watch_of: dict[Tail, int] = {}  # the armed files
        self._tails_of: dict[int, set[Tail]] = {}
        self._unwatched: set[Tail] = set()
        self._look_at = 0.0
        self._inotify: Inotify | None = None
        self._is_tried = False

    @property
    def fd(self) -> int | None:
        """Readable when an armed file has changed; None where there is no inotify."""
        return self._inotify.fileno() if self._inotify else None

    def arm(self, tail: Tail) -> None:
        """Be told of the file's next write; what was written before must be read after this."""
        if tail in self._watch_of or tail in self._unwatched:
            return
        watch = self._try_to_watch(tail)
        if watch is None:
            self._unwatched.add(tail)
        else:
            self._watch_of[tail] = watch
            self._tails_of.setdefault(watch, set()).add(tail)

    def remove(self, tail: Tail) -> None:
        """Stop watching a file."""
        self._unwatched.discard(tail)
        watch = self._watch_of.pop(tail, None)
        if watch is None:
            return
        self._tails_of[watch].remove(tail)
        if not self._tails_of[watch]:
            del self._tails_of[watch]
            if self._inotify:
                self._inotify.remove(watch)

    def changed(self) -> list[Tail]:
        """The files that were written to since they were armed; they are not armed any more."""
        watches = self._inotify.changed() if self._inotify else set()
        if watches is None:
            watches = set(self._tails_of)  # any: arming one that still is armed does no harm
        tails = [tail for watch in watches for tail in self._tails_of.pop(watch, ())]
        for tail in tails:
            del self._watch_of[tail]
        return tails

    def due(self) -> Iterable[Tail]:
        """The files to be looked at because it is time to."""
        now = time.monotonic()
        if not self._unwatched or now < self._look_at:
            return ()
        self._look_at = now + LOOK_EVERY
        return list(self._unwatched)

    def next_look(self) -> float | None:
        """When a file is to be looked at, by the monotonic clock; None: never."""
        return self._look_at if self._unwatched else None

    def close(self) -> None:
        """Give all watches back."""
        if self._inotify:
            self._inotify.close()

    def _try_to_watch(self, tail: Tail) -> int | None:
        if not self._is_tried:
            # Not before the first file: so it is the console's thread that pays for it.
            self._is_tried = True
            with suppress(OSError):
                self._inotify = Inotify()
        if self._inotify:
            with suppress(OSError):  # its budget is used up: this file is looked at by the clock
                return self._inotify.add(Path(f"/proc/self/fd/{tail.fileno()}"))
        return None

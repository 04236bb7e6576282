"""A lock on a file, held until its process ends however that ends, and looked at without touching.

Linux's locks on *open files*: of two holders in one process, too, one is refused, and closing the
file elsewhere in the process loses nothing. Unlike ``flock`` they can be asked about, so that
somebody who only looks is in nobody's way.
"""

from __future__ import annotations

import fcntl
import os
import struct

__all__ = ["is_locked", "lock"]

_FLOCK = "hhqqi4x"  # the C struct flock: type, whence, start, length (0: all of it), pid
_WHOLE_FILE = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def lock(descriptor: int) -> None:
    """Take the lock; the file must be open for writing.

    Raises ``BlockingIOError`` when somebody has it, ``OSError`` where there are no such locks.
    """
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)


def is_locked(descriptor: int) -> bool:
    """Whether another open file has the lock. Raises ``OSError`` where there are no such locks."""
    holder = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
    return bool(struct.unpack(_FLOCK, holder)[0] != fcntl.F_UNLCK)

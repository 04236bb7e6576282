"""A small binding of Linux's inotify: which of the watched files were written to?

The kernel tells us of a write, so nobody has to look at a file that is at rest. A watch tells of
one write and then is gone (``IN_ONESHOT``): with lasting watches the kernel queues a record for
nearly every write, which slowed eight writers of single lines from 2.7 to 4.6 seconds.

Only ``IN_MODIFY`` on regular files is asked for (a truncation counts as one), and files, unlike
folders, send records without a name: 16 bytes each, parsed at once as an array of integers. A
watch that is gone is told of by a record too; its number is not used again, so it means nothing.

inotify may be missing (another system) or used up (``fs.inotify.max_user_instances``,
``max_user_watches``). Both are an OSError here, and the caller looks at the clock instead.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes
    from pathlib import Path

__all__ = ["Inotify"]

_IN_MODIFY = 0x2
_IN_ONESHOT = 0x80000000
_OVERFLOW = -1  # the watch of the record that says that records were lost
_WORDS = 4  # 32-bit words of a record: watch, mask, cookie, length of the name (0)
_READ_BYTES = 16 * 1024  # a thousand records; more are told of by the next call


def _libc() -> ctypes.CDLL:
    # Imported here: it takes 2 ms, and only the console's thread needs it.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        raise OSError("this system has no inotify")
    return libc


class Inotify:
    """A set of watched files. Raises OSError where inotify cannot be had."""

    def __init__(self) -> None:
        import ctypes

        self._libc = _libc()
        # As an unsigned number: the highest bit would not fit the C int that is the default.
        self._mask = ctypes.c_uint32(_IN_MODIFY | _IN_ONESHOT)
        # The two flags of inotify_init1 have the values of their open(2) namesakes.
        self._fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        """The descriptor, readable when a watched file has changed."""
        return self._fd

    def add(self, path: Path) -> int:
        """Watch a file until its next write; return the watch's number. Raises OSError.

        A file that is watched already keeps its number.
        """
        name = os.fsencode(path)
        return self._checked(self._libc.inotify_add_watch(self._fd, name, self._mask))

    def remove(self, watch: int) -> None:
        """Stop watching; a watch that the kernel has dropped by itself is no error."""
        self._libc.inotify_rm_watch(self._fd, watch)

    def changed(self) -> set[int] | None:
        """The watches of the files written to since the last call; None: any, some are lost."""
        records = array("i")
        try:
            records.frombytes(os.read(self._fd, _READ_BYTES))
        except BlockingIOError:
            return set()
        watches = set(records[::_WORDS])
        return None if _OVERFLOW in watches else watches

    def close(self) -> None:
        """Give the descriptor and all watches back."""
        os.close(self._fd)

    def _checked(self, result: int) -> int:
        import ctypes

        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

"""One log file being followed: where we are in it, and the next whole lines.

The file is its own buffer. What cannot be handed on yet, because the line is not complete or
the console is slow, is simply not read: the offset stays at the last terminator. A line longer
than ``LONGEST_LINE`` is handed on in pieces, lest a worker that never ends a line is never seen.

The descriptor is opened once, so a file that is renamed or deleted is still followed for as long
as somebody writes to it. A file that became shorter is read again from its beginning.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from elastic_fsm.logs.lines import Matching, Prefixer, end_of_units

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

__all__ = ["BLOCK", "LONGEST_LINE", "Tail"]

# Large enough that the calls cost nothing, small enough to stay in the processor's cache.
BLOCK = 256 * 1024
LONGEST_LINE = 8 * 1024 * 1024


class Tail:
    """A followed file. Raises OSError when the file cannot be opened or read."""

    def __init__(
        self,
        path: Path,
        *,
        stream: Literal["stdout", "stderr"],
        prefix: bytes,
        offset: int = 0,
        only: Collection[bytes] = (),
    ) -> None:
        self.path = path
        self.stream = stream
        self.lines = Matching(prefix, only) if only else Prefixer(prefix)
        self.more = True  # whether reading again now may yield more
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset = offset  # everything before it was handed on
        self._scanned = offset  # no terminator between the offset and here
        self._end: int | None = None

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._fd

    @property
    def ending(self) -> bool:
        """Whether the writers have ended: the file is read to the end that it has now."""
        return self._end is not None

    def end(self) -> None:
        """Note that the writers have ended. Later bytes, if any, are not read."""
        self._end = os.fstat(self._fd).st_size
        self.more = True

    def read(self) -> bytes:
        """The next whole lines, at most about a block of them; empty if none is complete."""
        limit = self._limit()
        block = os.pread(self._fd, min(BLOCK, limit - self._scanned), self._scanned)
        seen = self._scanned + len(block)
        at_end = seen >= limit or not block  # no block: shortened since its size was read
        cut = end_of_units(block)
        leftover = self.ending and at_end and not cut
        if not cut and (leftover or seen - self._offset >= LONGEST_LINE):
            cut = len(block)
        elif not cut:
            self._scanned, self.more = seen, not at_end
            return b""
        self.more = not at_end or (self.ending and cut < len(block))
        piece = self._held() + block[:cut]
        self._offset = self._scanned = self._scanned + cut
        return piece + b"\n" if leftover and piece else piece

    def give_up(self) -> None:
        """Note that the file cannot be read any longer: it has ended here."""
        self._end, self.more = self._offset, False

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _limit(self) -> int:
        """How far to read; never less than what was scanned, also if the file became shorter."""
        size = os.fstat(self._fd).st_size
        if size < self._offset:
            self._offset = 0
        if size < self._scanned:
            self._scanned = self._offset
        return size if self._end is None else max(min(self._end, size), self._scanned)

    def _held(self) -> bytes:
        """What was scanned, and held back for the rest of its line."""
        length = self._scanned - self._offset
        return os.pread(self._fd, length, self._offset) if length else b""

"""What a command writes: passed on in whole lines, and the last of it remembered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from elastic_fsm.loop import Loop

__all__ = ["Output"]

_BLOCK = 65536
_MOST_BLOCKS = 16  # the most that a pipe holds
_LONGEST = 500
"""Characters of a last line that are kept."""


class Output:
    """A pipe to be written to (``write_end``) by one command; ``say`` gets its lines.

    The command waits when nobody reads, never the loop.
    """

    def __init__(self, loop: Loop, say: Callable[[str], None]) -> None:
        self.last_line = ""
        self._loop = loop
        self._say = say
        self._rest = b""
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        loop.watch(self._read_end, self._readable)

    def is_held(self) -> None:
        """The command has its own copy of the end that is written to."""
        os.close(self.write_end)

    def close(self) -> None:
        """Pass on the rest: whoever wrote has ended."""
        for _ in range(_MOST_BLOCKS):  # what has left its group may write for ever
            if not (block := self._read()):
                break
            self._take(block)
        if self._rest:
            self._tell(self._rest)
        self._loop.unwatch(self._read_end)
        os.close(self._read_end)

    def _readable(self) -> None:
        block = self._read()
        if block:
            self._take(block)
        elif block == b"":  # the end, which would be readable for ever
            self._loop.unwatch(self._read_end)

    def _read(self) -> bytes | None:
        """What is there, up to a block; None when there is nothing now."""
        try:
            return os.read(self._read_end, _BLOCK)
        except BlockingIOError:
            return None

    def _take(self, block: bytes) -> None:
        lines, newline, self._rest = (self._rest + block).rpartition(b"\n")
        if len(self._rest) > _BLOCK:  # of a line without an end
            lines, newline, self._rest = lines + newline, self._rest, b""
        if newline:
            self._tell(lines + newline)

    def _tell(self, lines: bytes) -> None:
        text = lines.decode(errors="backslashreplace")
        self._say(text)
        told = [line.strip() for line in text.splitlines() if line.strip()]
        self.last_line = told[-1][:_LONGEST] if told else self.last_line

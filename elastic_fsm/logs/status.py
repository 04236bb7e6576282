"""The live status line at the bottom of a terminal, as bytes to write.

It is drawn below the output and erased before more output comes. Where the output's last line
is a progress bar (it ended in ``\\r``), the bar must not be overwritten: the status goes one row
below, and erasing it moves the cursor up again, so that the bar's next picture replaces it.

The text may be a function, called once a second to let a clock tick. It is called by the
console's thread; one that raises removes the status line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StatusLine"]

_ERASE_ROW = b"\r\x1b[K"
_ROW_UP = b"\x1b[A"
_USUAL_WIDTH = 80


class StatusLine:
    """What the status line says, and what of it is on the terminal."""

    def __init__(self) -> None:
        self._source: str | Callable[[], str] | None = None
        self._text: str | None = None
        self._shown: bytes | None = None
        self._is_below_bar = False

    @property
    def ticks(self) -> bool:
        """Whether the text changes with time."""
        return callable(self._source)

    def set(self, source: str | Callable[[], str] | None) -> None:
        """Replace the text, or the function that gives it. Raises what the function raises."""
        self._source = self._text = None  # what stays if the function raises
        text = source() if callable(source) else source
        self._source, self._text = source, text

    def tick(self) -> None:
        """Ask the function again. Raises what it raises, and then it is not asked again."""
        self.set(self._source)

    def redraw(self, fd: int, *, below: bytes) -> bytes:
        """The bytes that bring the terminal up to date; empty if it is.

        ``below`` is the last byte of the output above.
        """
        line = self._line(_width(fd))
        if line == self._shown:
            return b""
        erased = self.hide()
        if line is None:
            return erased
        self._shown = line
        self._is_below_bar = below == b"\r"
        return erased + (b"" if below == b"\n" else b"\n") + line

    def hide(self) -> bytes:
        """The bytes that erase the line and put the cursor where the output goes on."""
        if self._shown is None:
            return b""
        self._shown = None
        return _ERASE_ROW + (_ROW_UP if self._is_below_bar else b"")

    def _line(self, width: int) -> bytes | None:
        if self._text is None:
            return None
        # A full row would make some terminals wrap, and then one row could not erase it.
        text = " ".join(self._text.splitlines())[: width - 1]
        return text.encode("utf-8", "backslashreplace")


def _width(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns or _USUAL_WIDTH
    except OSError:
        return _USUAL_WIDTH

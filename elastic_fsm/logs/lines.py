"""Cutting a byte stream into whole lines and giving each its prefix. Pure, no I/O.

A *unit* is text with its terminator: ``\\n``, ``\\r\\n`` or a ``\\r`` alone. A bare ``\\r`` ends a
unit because progress bars are drawn that way: holding their text until a newline would show
them only when they are complete.

So a unit that ends in ``\\r`` is handed on although the other half of a ``\\r\\n`` may be still to
come. If it does come, that ``\\n`` belongs to the unit already shown and gets no prefix; if
somebody else has written to the console in between, the console has ended the line already and
the ``\\n`` is dropped.

The work is done by ``bytes.replace``; a regular expression only where a block holds ``\\r``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Matching", "Prefixer", "end_of_units"]

_TERMINATOR = re.compile(rb"\r\n?|\n")


def end_of_units(data: bytes) -> int:
    """The length of the part of ``data`` that consists of whole units."""
    newline = data.rfind(b"\n")
    # Only what follows the last newline is searched: most blocks hold no "\r" at all.
    return max(newline, data.rfind(b"\r", newline + 1)) + 1


class Prefixer:
    """Puts one stream's prefix before each of its lines, across the pieces it comes in."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._after_newline = b"\n" + prefix
        # A template of re.sub, where a backslash of the prefix would mean something.
        self._after_any = rb"\g<0>" + prefix.replace(b"\\", b"\\\\")
        self._last = b"\n"

    def render(self, piece: bytes, *, joined: bool) -> bytes:
        """Return the stream's next bytes (not empty) with their prefixes.

        ``joined`` says that the stream's previous piece is the last thing on the console and
        that its line is still open, so that these bytes go on where it stopped.
        """
        before, self._last = self._last, piece[-1:]
        if before == b"\r" and piece[:1] == b"\n":
            return (b"\n" if joined else b"") + self._from_start(piece[1:])
        if before not in b"\r\n" and joined:
            return self._within(piece)
        return self._from_start(piece)

    def _from_start(self, data: bytes) -> bytes:
        return self._prefix + self._within(data) if data else data

    def _within(self, data: bytes) -> bytes:
        """Give a prefix to every line that begins inside ``data``, so not to the first."""
        if b"\r" in data:
            text = _TERMINATOR.sub(self._after_any, data)
        else:
            text = data.replace(b"\n", self._after_newline)
        # The prefix after the very last terminator belongs to a line that is not there yet.
        return text[: len(text) - len(self._prefix)] if data[-1:] in b"\r\n" else text


class Matching(Prefixer):
    """Leaves out the lines that hold none of some words."""

    def __init__(self, prefix: bytes, words: Iterable[bytes]) -> None:
        super().__init__(prefix)
        self._words = tuple(words)

    def render(self, piece: bytes, *, joined: bool) -> bytes:
        """See :meth:`Prefixer.render`; may be empty."""
        lines = piece.splitlines(keepends=True)
        kept = b"".join(line for line in lines if any(word in line for word in self._words))
        return super().render(kept, joined=joined) if kept else b""

"""Text of others that is safe to show: it cannot move the cursor, change colours, or beep."""

from __future__ import annotations

__all__ = ["printable"]

_KEPT = "\n\t"
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_ESCAPES = {code: f"\\x{code:02x}" for code in _CONTROLS if chr(code) not in _KEPT}


def printable(text: str) -> str:
    r"""The text with its control characters written out, as in ``\x1b``; newline and tab stay."""
    return text.translate(_ESCAPES)

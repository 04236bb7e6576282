"""Writes an override so that it is read back as the value that was meant."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["AS_TYPED", "override"]

# Text that Hydra takes for itself as it stands.
_PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)$)[A-Za-z_][\w./-]*", re.ASCII | re.IGNORECASE)
AS_TYPED = ("run_id", "run_dir", "spec.cwd")
"""Keys whose text is taken as it was typed."""


def override(key: str, value: Any) -> str:
    """``key=value`` as a word of the command line; not quoted for a shell."""
    return f"{key}={value if key in AS_TYPED else _written(value)}"


def _written(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}: {_written(inner)}' for key, inner in value.items())}}}"
    if not isinstance(value, str):
        return str(value)
    return value if _PLAIN.fullmatch(value) else _quoted(value)


def _quoted(text: str) -> str:
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(text, Quote.double).with_quotes()

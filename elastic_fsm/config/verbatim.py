"""Text that is carried through OmegaConf without being read as anything.

A worker's arguments and environment belong to the user's program: ``0115``, ``1e3``, ``yes``,
``${x}`` and ``???`` must arrive as they were typed. OmegaConf gives each of them a meaning, so
they travel as hexadecimal digits between two private-use characters and are written back after
everything is resolved. The closing mark makes them recognisable inside other text as well, for
an interpolation such as ``run_dir: runs/${spec.env.NAME}``.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["decode", "encode", "is_verbatim", "text_of"]

_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_ENCODED = re.compile(f"{_OPEN}([0-9a-f]*){_CLOSE}")
_PATHS = re.compile(r"spec\.(entrypoint|args\.\d+|env\..*|worker_env\.\d+\..*)", re.DOTALL)


def is_verbatim(path: str) -> bool:
    """Whether the value at this dotted path is a worker's text."""
    return _PATHS.fullmatch(path) is not None


def encode(text: str) -> str:
    """``text`` in a form that no part of YAML, Hydra or OmegaConf interprets."""
    # surrogatepass: words of a command line need not be valid UTF-8, and what no process can take
    # (a program's half of a character) is found by the checks, not here.
    return f"{_OPEN}{text.encode('utf-8', 'surrogatepass').hex()}{_CLOSE}"


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match[1]).decode("utf-8", "surrogatepass")


def decode(value: Any) -> Any:
    """The same tree of dicts and lists with every encoded text written back."""
    if isinstance(value, dict):
        return {decode(key): decode(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [decode(inner) for inner in value]
    if isinstance(value, str) and _OPEN in value:
        return _ENCODED.sub(_decoded, value)
    return value


def text_of(value: Any) -> str:
    """The text of a value that YAML has already typed: as YAML would write it.

    ``True`` is ``true`` and ``None`` is ``null``; of a number only its value is left (``1e3``
    is ``1000.0``), so text that matters has to be quoted in such a file.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)

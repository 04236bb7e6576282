"""Hides secrets before a configuration is shown or saved.

A run's configuration ends up in terminals, tickets and the run's folder. What counts is the
*name* of a variable; its value is then hidden wherever else it turns up, for instance in a path
that was interpolated from it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MASK", "hide", "is_secret", "mask", "mask_env", "secrets_of"]

MASK = "***"

# `tokenizer` is no token: TOKENIZERS_PARALLELISM is on half of all machines.
_SECRET = re.compile(
    r"token(?!iz)|secret|passw(or)?d|pgpass|api_?key|access_?key|credential|private"
    r"|(?:^|[_-])(?:key|pwd|pass|auth)(?:$|[_-])",
    re.IGNORECASE,
)
_URL = re.compile(r"(?P<start>\b[a-z][a-z0-9+.-]*://[^\s/:@]*):[^\s/@]+@", re.IGNORECASE)
_OPTION = re.compile(r"(?P<name>-{0,2}[\w.-]+)(?:=(?P<value>.*))?", re.DOTALL)
_OC_ENV = re.compile(r"\$\{\s*oc\.env\s*:\s*([^,}\s]+)")
# A shorter value found inside other text is more likely to be part of a common word.
_LEAST = 6


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds something that must not be shown."""
    return _SECRET.search(name) is not None


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment with secrets hidden."""
    return {name: MASK if is_secret(name) else _URL.sub(_url, v) for name, v in env.items()}


def secrets_of(values: Mapping[str, Any], raw_texts: Iterable[str]) -> tuple[str, ...]:
    """The secret values of a run: of its variables, and of those that ``${oc.env:X}`` reads."""
    spec = values["spec"]
    found = [v for env in _environments(spec) for k, v in env.items() if is_secret(k)]
    names = {name for text in raw_texts for name in _OC_ENV.findall(text)}
    found += [os.environ.get(name, "") for name in names if is_secret(name)]
    found += _secret_arguments(spec["args"])
    # The longest first: one may be the beginning of another.
    return tuple(sorted({v for v in found if len(v) >= _LEAST}, key=len, reverse=True))


def _environments(spec: Mapping[str, Any]) -> list[Mapping[str, str]]:
    return [spec["env"], *spec["worker_env"].values()]


def _secret_arguments(args: list[str]) -> list[str]:
    """The values in ``--api-key=x`` and ``--api-key x``."""
    found = []
    for word, following in zip(args, [*args[1:], ""], strict=False):
        match = _OPTION.fullmatch(word)
        if match and is_secret(match["name"].replace("-", "_")):
            named = match["value"] if match["value"] is not None else following
            found += [named] if match["value"] is not None or word.startswith("-") else []
    return found


def mask(values: dict[str, Any], secrets: tuple[str, ...]) -> dict[str, Any]:
    """A copy of a run's values with secrets hidden."""
    shown: dict[str, Any] = hide(values, secrets)
    shown["spec"]["env"] = mask_env(shown["spec"]["env"])
    shown["spec"]["worker_env"] = {
        rank: mask_env(env) for rank, env in shown["spec"]["worker_env"].items()
    }
    return shown


def hide(value: Any, secrets: tuple[str, ...]) -> Any:
    """A tree of values, or a text, with these secrets and passwords in URLs hidden."""
    if isinstance(value, dict):
        return {key: hide(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [hide(inner, secrets) for inner in value]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, MASK)
    return _URL.sub(_url, value) if "://" in value else value


def _url(match: re.Match[str]) -> str:
    return f"{match['start']}:{MASK}@"

"""Hides secrets before a configuration is shown or saved.

A run's configuration ends up in terminals, tickets and the run's folder. What counts is the
*name* of a variable, an option or a parameter; its value is then hidden wherever else it turns
up, for instance in a path that was interpolated from it.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from elastic_fsm.config.tree import leaves, strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from elastic_fsm.declaration import Use

__all__ = ["MASK", "hide", "is_secret", "mask_env", "masked_texts", "masks_in", "secrets_of"]

MASK = "***"

# `tokenizer` is no token: TOKENIZERS_PARALLELISM is on half of all machines.
_SECRET = re.compile(
    r"token(?!iz)|secret|passw(or)?d|pgpass|api_?key|access_?key|credential|private"
    r"|(?:^|[_-])(?:key|pwd|pass|auth)(?:$|[_-])",
    re.IGNORECASE,
)
# Most numbers under such a name are none: --max-tokens 4096, --num-key-value-heads 8.
_NUMBER = re.compile(r"[-+]?\d{1,8}(?:\.\d*)?(?:[eE][-+]?\d+)?")
_PASSWORD = re.compile(r"secret|pass|pwd", re.IGNORECASE)
_URL = re.compile(r"(?P<start>\b[a-z][a-z0-9+.-]*://[^\s/:@]*):[^\s/@]+@", re.IGNORECASE)
# Without dashes only `name=value`: of other words nobody knows whether they are names.
_OPTION = re.compile(r"(?P<name>--?[\w.-]+|[\w.-]+(?==))(?:=(?P<value>.*))?", re.DOTALL)
_OC_ENV = re.compile(r"\$\{\s*oc\.env\s*:\s*([^,}\s]+)")
# A shorter value found inside other text is more likely to be part of a common word.
_LEAST = 6
_HIDDEN = re.compile(r"(?:.*=)?\*\*\*|.*:\*\*\*@.*", re.DOTALL)
# Below these keys of a configuration names are the user's; the other keys are ours, and `pass` in
# `pass_through` means something else. The last four hold the parameters of actions.
_USERS_OWN = ("env", "worker_env", "options", "on_enter", "on_exit", "before", "after")
_NO_SECRET = (dict, list, bool, type(None))


def is_secret(name: str) -> bool:
    """Whether a variable or an option of this name holds something that must not be shown."""
    return _SECRET.search(name.replace("-", "_")) is not None


def _is_secret_value(name: str, value: str) -> bool:
    return is_secret(name) and not (_NUMBER.fullmatch(value) and not _PASSWORD.search(name))


def masks_in(values: Mapping[str, Any]) -> Iterator[str]:
    """Dotted paths of what was hidden when it was saved, and holds nothing else any more."""
    for path, value in leaves(values):
        if any(MASK in text and _HIDDEN.fullmatch(text) for text in strings(value)):
            yield ".".join(map(str, path))


def secrets_of(
    values: Any, raw_texts: Iterable[str] = (), *, known: Iterable[str] = ()
) -> tuple[str, ...]:
    """The secret values of a run, to be hidden in any text: those of its own, those that
    ``${oc.env:X}`` reads in the ``raw_texts``, and those that are ``known`` already."""
    found = [*known]

    def note(secret: str) -> str:
        found.append(secret)
        return secret

    _Walk(note, str).tree(values)
    names = {name for text in raw_texts for name in _OC_ENV.findall(text)}
    found += [os.environ.get(name, "") for name in names if is_secret(name)]
    # The longest first: one may be the beginning of another.
    return tuple(sorted({v for v in found if len(v) >= _LEAST}, key=len, reverse=True))


def hide(value: Any, secrets: tuple[str, ...], *, users_own: bool = False) -> Any:
    """A copy of a tree of values, or of a text, with what is secret hidden.

    Secret are these ``secrets``, passwords in URLs, and values of any length whose place says so:
    after ``--api-key``, and under such a key where the keys are the user's (``users_own``: they
    are from the top on).
    """
    return _Walk(lambda _: MASK, partial(_hidden, secrets)).tree(value, users_own=users_own)


def mask_env(env: Mapping[str, str], secrets: tuple[str, ...] = ()) -> dict[str, str]:
    """An environment with secrets hidden."""
    masked: dict[str, str] = hide(dict(env), secrets, users_own=True)
    return masked


def masked_texts(uses: Iterable[Use], secrets: tuple[str, ...]) -> dict[str, str]:
    """What to write of actions with a secret among their parameters, by their texts as they are."""
    texts = {str(use): str(_masked_use(use, secrets)) for use in uses}
    return {text: masked for text, masked in texts.items() if masked != text}


def _masked_use(use: Use, secrets: tuple[str, ...]) -> Use:
    """As it stands in the masked configuration, from which a journal is replayed."""
    shown = hide({use.name: use.arguments}, secrets, users_own=True)
    return replace(use, arguments=shown[use.name])


class _Walk:
    """Copies a tree with its texts changed: by ``secret`` the values that are secret by their
    place, by ``other`` the rest."""

    def __init__(self, secret: Callable[[str], str], other: Callable[[str], str]) -> None:
        self.secret = secret
        self.other = other

    def tree(self, value: Any, *, users_own: bool = False) -> Any:
        if isinstance(value, str):
            return self.other(value)
        if isinstance(value, dict):
            return {key: self._entry(key, inner, users_own) for key, inner in value.items()}
        return list(self._words(value, users_own)) if isinstance(value, list) else value

    def _entry(self, key: Any, value: Any, users_own: bool) -> Any:
        is_one = users_own and not isinstance(value, _NO_SECRET)
        if is_one and _is_secret_value(str(key), str(value)):
            return self.secret(str(value))
        return self.tree(value, users_own=users_own or key in _USERS_OWN)

    def _words(self, words: list[Any], users_own: bool) -> Iterator[Any]:
        """A list may be a command: ``--api-key=x`` and ``--api-key x``."""
        before = ""  # the option whose value a word may be
        for word in words:
            name, value = _option(word)
            if value is not None and _is_secret_value(name, value):
                yield f"{name}={self.secret(value)}"
            elif _is_value(word) and _is_secret_value(before, word):
                yield self.secret(word)
            else:
                yield self.tree(word, users_own=users_own)
            before = name if value is None else ""


def _is_value(word: Any) -> bool:
    return isinstance(word, str) and not word.startswith("--")


def _option(word: Any) -> tuple[str, str | None]:
    """The name of an option, and its value where it has one; of any other word no name."""
    match = _OPTION.fullmatch(word) if isinstance(word, str) else None
    return (match["name"], match["value"]) if match else ("", None)


def _hidden(secrets: tuple[str, ...], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return _URL.sub(_url, text) if "://" in text else text


def _url(match: re.Match[str]) -> str:
    return f"{match['start']}:{MASK}@"

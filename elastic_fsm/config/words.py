"""Reads the overrides of a command line: what Hydra parses, and what must not pass through it.

Each word is looked at on its own, before anything is composed, so that three misspelt keys are
three findings. Words that carry a worker's text are taken out here: Hydra's grammar would read
``spec.env.X=a,b`` as a sweep, ``1e3`` as a float, and refuse ``a=b``. So are the names of folders
and of the run, in which only a reference ``${...}`` keeps its meaning. ``machine`` is open, so
its keys need no ``+``; everywhere else a ``+`` does not make an unknown key known, and a known one
needs none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.config.hints import (
    GROUPS,
    expected,
    is_known,
    is_utf8,
    quoted_override,
    unknown_key,
)
from elastic_fsm.config.schema import field_types
from elastic_fsm.config.simple_override import simple_override
from elastic_fsm.config.sources import options
from elastic_fsm.config.tree import index
from elastic_fsm.config.verbatim import encode
from elastic_fsm.config.writing import AS_TYPED
from elastic_fsm.config.yamlfile import FEWER_DIGITS, TOO_LONG, parse_flow
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem, cut, did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hydra._internal.config_repository import CachingConfigRepository
    from hydra.core.override_parser.types import Override

__all__ = ["CommandLine", "TextWord", "no_option"]

_WORD = re.compile(r"(?P<sign>~|\+{0,2})(?P<key>[^=]*)(?P<equals>=?)(?P<value>.*)", re.DOTALL)
_TEXT = re.compile(
    r"\+{0,2}spec\.(entrypoint|args\.\d+|env\.[^=]*|worker_env\.[^.=]+\.[^=]*)=(.*)", re.DOTALL
)
_TEXTS = re.compile(r"\+{0,2}(spec\.(?:args|env|worker_env(?:\.\d+)?))=(.*)", re.DOTALL)
_NAMES = re.compile(rf"\+{{0,2}}({'|'.join(map(re.escape, AS_TYPED))})=(.*)", re.DOTALL)


class TextWord(NamedTuple):
    """A text from the command line, encoded, and the word that said it."""

    path: tuple[str | int, ...]
    value: Any
    word: str


@dataclass(slots=True)
class CommandLine:
    """The words, sorted; ``overrides`` are Hydra's, with the word as it was typed."""

    repo: CachingConfigRepository
    overrides: list[tuple[Override, str]] = field(default_factory=list)
    texts: list[TextWord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def read(self, words: Iterable[str]) -> CommandLine:
        """Sort all words; findings are collected in ``problems``."""
        for word in words:
            try:
                self._read(word)
            except BadInput as error:
                self.problems.extend(error.problems)
        return self

    def _read(self, word: str) -> None:
        match = _WORD.fullmatch(word)
        assert match is not None  # the pattern matches any text
        sign, key, equals, value = match.group("sign", "key", "equals", "value")
        if not equals and sign != "~":
            raise _bad(f"{word!r} is no override", fix="write key=value")
        if sign == "+" and key in field_types():
            raise _bad("has a value already", key, fix="leave the + out")
        if text := _text_word(word):
            self.texts.append(text)
            return
        self.overrides.append((self._override(sign, key, equals + value), word))

    def _override(self, sign: str, key: str, rest: str) -> Override:
        value = rest[1:]
        if not key:
            raise _bad(f"{sign}{rest!r} names no key", fix="write key=value")
        if key in GROUPS:
            return self._group(sign, key, value)
        if key == "machine" or key.startswith("machine."):
            return _parse("~", key, rest) if sign == "~" else _force(key, value)
        if self.repo.group_exists(key):
            # A group of the user's own, beside the job file; Hydra knows no `++` there.
            return _parse(sign[:1], key, rest, text=True)
        if key.startswith(("hydra.", "hydra/")):
            fix = "the agent sets up neither logging nor folders through Hydra: leave it out"
            raise _bad("Hydra's own settings have no meaning here", key, fix=fix)
        if not is_known(key):
            raise BadInput([unknown_key(key, value=value, where=COMMAND_LINE)])
        if sign == "~" and key in field_types():
            raise _bad("cannot be removed", key, fix=f"give it a value: {key}=…")
        return _parse(sign, key, rest)

    def _group(self, sign: str, key: str, value: str) -> Override:
        if sign == "~":
            raise _bad("cannot be removed", key, fix=f"choose another: {key}=…")
        if value.startswith("{"):  # values for the group, not a choice
            return _parse("++" if key == "machine" else "", key, f"={value}")
        known = options(self.repo, key)
        if value not in known:
            raise BadInput([no_option(key, value, known, where=COMMAND_LINE)])
        return _parse("", key, f"={value}")


def no_option(group: str, value: str, known: list[str], *, where: str = "") -> Problem:
    """The finding for a file that a group does not have."""
    hint = did_you_mean(value, known)
    if hint.startswith("did"):
        hint += f"  ({group} has: {listed(known)})"
    if group == "machine":
        hint += "; one of your own stands beside the job file: -c job.yaml"
    return Problem(f"there is no {group} called {value!r}", path=group, where=where, fix=hint)


def _text_word(word: str) -> TextWord | None:
    """The word as a worker's text, or as the name of a folder or run, unless it is neither."""
    if match := _TEXT.fullmatch(word):
        path = ("spec", *_text_path(match[1]))
        null = path[-1] == "entrypoint" and match[2] in ("", "null")
        return TextWord(path, None if null else encode(match[2]), word)
    if match := _NAMES.fullmatch(word):
        name = match[2] if "${" in match[2] else encode(match[2])
        return TextWord(tuple(match[1].split(".")), None if match[2] == "null" else name, word)
    if match := _TEXTS.fullmatch(word):
        return _collection(match[1], match[2], word)
    return None


def _text_path(key: str) -> tuple[str | int, ...]:
    """The key below ``spec``; a variable's name is everything after the last dot we know."""
    kind, _, name = key.partition(".")
    if kind == "worker_env":
        rank, _, name = name.partition(".")
        number = index(rank)
        if number is None:
            fix = "write spec.worker_env.0.NAME=text"
            raise _bad(f"{cut(rank)} is no local rank", "spec.worker_env", fix=fix)
        return kind, number, name
    return (kind, name) if "." in key else (kind,)


def _collection(key: str, value: str, word: str) -> TextWord:
    """``spec.args=[--lr, 1e3]``: the brackets are ours, what stands in them is text."""
    kind = list if key == "spec.args" else dict
    if not is_utf8(value):
        what = "bytes that are not UTF-8 cannot stand within brackets"
        raise _bad(what, key, fix=_without_brackets(key))
    try:
        read = parse_flow(value, path=key)
    except BadInput:
        example = "[--lr, '{x}']" if kind is list else "{NAME: '{x}'}"
        fix = f'quote words with marks in them: "{key}={example}"'
        raise _bad(f"cannot read {cut(value)}", key, fix=fix) from None
    if not isinstance(read, kind):
        raise _bad(f"{cut(value)} does not fit", key, fix=f"it takes {expected(key)}")
    return TextWord(tuple(key.split(".")), read, word)


def _without_brackets(key: str) -> str:
    if key == "spec.args":
        return "type the arguments after the command, at the end of the line"
    rank = ".0" if key == "spec.worker_env" else ""
    return f"give each on its own: {key}{rank}.NAME=text"


def _force(key: str, value: str) -> Override:
    """``machine`` is open: a key that is new is as good as one that is there."""
    return _parse("++", key, f"={value}")


def _parse(sign: str, key: str, rest: str, *, text: bool = False) -> Override:
    """The override; with ``text``, of a key that takes text."""
    override = _parsed(sign, key, rest)
    kind = field_types().get(key, "")
    if (text or kind.startswith("str")) and isinstance(override.value(), int | float):
        # A key that takes text gets what was typed: Hydra reads 2024_10 as the number 202410.
        override = _parsed(sign, key, f'="{rest[1:]}"')
    if override.is_sweep_override():
        fix = f"as text: {quoted_override(key, rest[1:])}"
        if kind.startswith("list") or key.startswith("machine."):
            fix = f"as a list: '{key}=[{rest[1:]}]'"
        raise _bad(f"{rest[1:]!r} could be a list or a text", key, fix=fix)
    return override


def _parsed(sign: str, key: str, rest: str) -> Override:
    from hydra.errors import HydraException

    word = f"{sign}{key}{rest}"
    try:
        return simple_override(word) or _parser().parse_overrides([word])[0]
    except HydraException:
        fix = f"as text: {quoted_override(key, rest[1:])}"
        raise _bad(f"Hydra cannot read {rest[1:]!r}", key, fix=fix) from None
    except ValueError:  # Python's limit
        fix = f"{FEWER_DIGITS}, also for the shell"
        raise _bad(f"{cut(rest[1:])} is {TOO_LONG}", key, fix=fix) from None


@cache
def _parser() -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def _bad(what: str, path: str = "", *, fix: str) -> BadInput:
    return BadInput.of(what, path=path, fix=fix, where=COMMAND_LINE)

"""A scenario file, read: what was set, what happens and when, and what was expected of it.

The file is plain text: a line for each thing, ``#`` for comments, and after a line of dashes
what came of it when it was last looked at. All lines that cannot be read are told at once.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import parse_duration
from elastic_fsm.problems import BadInput, Problem, did_you_mean
from elastic_fsm.scenario.forms import FORMS, values_of
from elastic_fsm.scenario.settings import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.scenario.forms import Form

__all__ = ["Happening", "Script", "parse_script", "read_script"]

_RULE = re.compile(r"-{4,}\s*")
_AT = re.compile(r"at\s+(\S+)\s+(.*)")

# Kinds of lines that are words of the configuration, and how.
_OVERRIDES = {
    "workers": "spec.local_world_size={N}",
    "max_restarts": "spec.max_restarts={N}",
    "set": "{KEY}={TEXT}",
}


@dataclass(frozen=True, slots=True)
class Happening:
    """One line: something that the world does, at a time or (None) before the run begins."""

    kind: str
    at: float | None = None
    values: dict[str, Any] = field(default_factory=dict)
    where: str = ""

    @property
    def rank(self) -> int | None:
        """The local rank that the line speaks of."""
        rank: int | None = self.values.get("N")
        return rank


@dataclass(slots=True)
class Script:
    """A whole file. ``overrides`` are words of the configuration, as on a command line."""

    name: str
    machines: tuple[str, ...] = ()
    overrides: list[str] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    story: str = ""
    expected: str = ""
    folder: Path = Path()
    places: dict[str, str] = field(default_factory=dict)
    """Where each key of the configuration is set, ``machine`` included."""

    def of_kind(self, kind: str) -> list[Happening]:
        """The lines of one kind, in the order of the file."""
        return [each for each in self.happenings if each.kind == kind]


def read_script(path: Path) -> Script:
    """Read a file; raises :class:`BadInput` with every line that cannot be read."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        names = [each.name for each in _neighbours(path)]
        fix = did_you_mean(path.name, names) if names else ""
        raise BadInput.of(f"no scenario can be read: {reason}", where=str(path), fix=fix) from None
    script = parse_script(text, name=str(path))
    script.folder = path.absolute().parent
    return script


def _neighbours(path: Path) -> list[Path]:
    folder = path.absolute().parent
    return sorted(folder.glob("*.txt")) if folder.is_dir() else []


def parse_script(text: str, *, name: str = "scenario") -> Script:
    """Read a text; ``name`` is what findings call it."""
    lines = text.splitlines()
    end = next((n for n, line in enumerate(lines) if _RULE.fullmatch(line)), len(lines))
    story = "".join(f"{line}\n" for line in lines[:end])
    expected = "".join(f"{line}\n" for line in lines[end + 1 :])
    script = Script(name, story=story, expected=expected)
    problems: list[Problem] = []
    for number, line in enumerate(lines[:end], 1):
        words = _without_comment(line)
        if words:
            _read_line(script, words, f"{name}:{number}", problems)
    problems += _missing(script)
    problems += _said_twice(script)
    if problems:
        raise BadInput(sorted(problems, key=_line_number))
    return script


def _line_number(problem: Problem) -> int:
    return int(problem.where.rpartition(":")[2])


def _without_comment(line: str) -> str:
    """A comment begins at a ``#`` at the start or after a blank."""
    return re.sub(r"(^|\s)#.*", "", line).strip()


def _read_line(script: Script, line: str, where: str, problems: list[Problem]) -> None:
    timed = _AT.fullmatch(line)
    words = timed[2] if timed else line
    try:
        at = parse_duration(timed[1]) if timed else None
        found = next(_matches(words), None)
    except ValueError as error:
        problems.append(Problem.told(str(error), where=where))
        return
    if found is None:
        problems.append(Problem(f"cannot read {line!r}", where=where, fix=_meant(words)))
        return
    form, values = found
    if form.at is not None and form.at != bool(timed):
        fix = f"at 40s {form.usage}" if form.at else form.usage
        what = "this needs a time" if form.at else "this has no time"
        problems.append(Problem(what, where=where, fix=f"write it as `{fix}`"))
        return
    _take(script, Happening(form.kind, at, values, where), problems)


def _matches(words: str) -> Iterator[tuple[Form, dict[str, Any]]]:
    for form in FORMS:
        values = values_of(form, words)
        if values is not None:
            yield form, values


def _meant(words: str) -> str:
    """The forms that a line with these words may have been meant to be."""
    first = words.split()[0]
    if first == "at":
        return "say when and what: `at 40s worker 3 exits 137`"
    usages = [form.usage for form in FORMS if form.usage.split()[0] == first]
    if not usages:
        return did_you_mean(first, [form.usage.split()[0] for form in FORMS] + ["at"])
    likely = difflib.get_close_matches(words, usages, n=3, cutoff=0.0)
    return f"did you mean {' or '.join(f'`{usage}`' for usage in likely)}?"


def _take(script: Script, happening: Happening, problems: list[Problem]) -> None:
    values = happening.values
    if happening.kind == "machine":
        script.machines = tuple(re.split(r"\s*,\s*", values["NAMES"]))
        _take_setting(script, "machine", happening, problems)
    elif happening.kind in _OVERRIDES:
        word = _OVERRIDES[happening.kind].format(**values)
        script.overrides.append(word)
        _take_setting(script, key_of(word), happening, problems)
    else:
        script.happenings.append(happening)


def _take_setting(script: Script, key: str, line: Happening, problems: list[Problem]) -> None:
    first = script.places.setdefault(key, line.where)
    if first != line.where:
        problems.append(_twice(key, first, line.where))


def _twice(what: str, first: str, where: str) -> Problem:
    return Problem(
        f"{what} is said twice, first in {first}", where=where, fix="leave one of them out"
    )


def _said_twice(script: Script) -> Iterator[Problem]:
    """Of two lines about how something is from the beginning the last would win, unnoticed."""
    seen: dict[str, str] = {}
    for line in script.happenings:
        for subject in _subjects(line) if line.at is None else ():
            if subject in seen:
                yield _twice(subject, seen[subject], line.where)
            seen.setdefault(subject, line.where)


def _subjects(line: Happening) -> list[str]:
    """What a line settles."""
    values = line.values
    match line.kind:
        case "conduct" | "stuck":
            return [f"how worker {line.rank} stops"]
        case "on_signal":
            return [f"what workers do after {values['SIGNAL']}"]
        case "command":
            said = {"T": "how long {} takes", "CODE": "the exit code of {}"}
            command = f"the command {values['NAME']}"
            return [said[each].format(command) for each in values if each in said]
        case "end" | "finish" | "start":
            return [_SETTLED[line.kind]]
    return []


_SETTLED = {
    "end": "the end of the scenario",
    "finish": "the end of the work",
    "start": "how long a start takes",
}


def _missing(script: Script) -> Iterator[Problem]:
    """What goes on for ever by itself needs an end."""
    if script.of_kind("end") or script.of_kind("finish"):
        return
    for happening in (*script.of_kind("failures"), *script.of_kind("changes")):
        fix = "add `end at 24h`, or `workers finish after 24h`"
        yield Problem("this goes on for ever", where=happening.where, fix=fix)

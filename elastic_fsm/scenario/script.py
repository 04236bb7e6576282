"""A scenario file, read: what was set, what happens and when, and what was expected of it.

The file is plain text: a line for each thing, ``#`` for comments, and after a line of dashes
what came of it when it was last looked at. A line that cannot be read hides nothing of the others:
it is told when the scenario is played, with whatever else is wrong.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import parse_duration
from elastic_fsm.problems import BadInput, Problem, closest, did_you_mean
from elastic_fsm.scenario.forms import FORMS, values_of
from elastic_fsm.scenario.settings import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from elastic_fsm.scenario.forms import Form

__all__ = ["Happening", "Script", "parse_script", "read_script"]

_RULE = re.compile(r"-{4,}\s*")
_FIRST_WORDS = [form.usage.split()[0] for form in FORMS]
_AT = re.compile(r"at\s+(\S+)\s+(.*)")

# Kinds of lines that are words of the configuration, and how.
_WORKERS = "spec.local_world_size"
_OVERRIDES = {
    "workers": f"{_WORKERS}={{N}}",
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
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with the lines by themselves."""
    doubtful: set[str] = field(default_factory=set)
    """Keys of the configuration that the file sets in a way which cannot be used, so that nobody
    knows what they were meant to be."""

    def check(self, more: Iterable[Problem] = ()) -> None:
        """Raises :class:`BadInput` with all that is wrong; ``more`` is what has been found beside
        the lines by themselves."""
        if problems := [*self.problems, *more]:
            raise self.refusal(problems)

    def refusal(self, problems: Iterable[Problem]) -> BadInput:
        """The error with these problems, in the order of the lines."""
        return BadInput(sorted(dict.fromkeys(problems), key=self._line_number))

    def _line_number(self, problem: Problem) -> float:
        """What stands elsewhere comes last."""
        name, _, number = problem.where.rpartition(":")
        return int(number) if name == self.name else math.inf

    def of_kind(self, kind: str) -> list[Happening]:
        """The lines of one kind, in the order of the file."""
        return [each for each in self.happenings if each.kind == kind]


def read_script(path: Path) -> Script:
    """Read a file. What is wrong with its lines stands in ``problems``, and is told when the
    scenario is played; raises :class:`BadInput` when there is no such file of text."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        what, fix = f"no scenario can be read: {reason}", _fix_of(error, path)
        raise BadInput.of(what, where=str(path), fix=fix) from None
    script = _read(text, str(path))
    script.folder = path.absolute().parent
    return script


def _fix_of(error: Exception, path: Path) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "save it as UTF-8"
    if not isinstance(error, FileNotFoundError):
        return "name a file that may be read"
    names = [each.name for each in _neighbours(path)]
    return did_you_mean(path.name, names) or "docs/scenarios.md says what such a file holds"


def _neighbours(path: Path) -> list[Path]:
    folder = path.absolute().parent
    return sorted(folder.glob("*.txt")) if folder.is_dir() else []


def parse_script(text: str, *, name: str = "scenario") -> Script:
    """Read a text; ``name`` is what findings call it.

    Raises :class:`BadInput` with every line that cannot be read.
    """
    script = _read(text, name)
    script.check()
    return script


def _read(text: str, name: str) -> Script:
    lines = text.splitlines()
    end = next((n for n, line in enumerate(lines) if _RULE.fullmatch(line)), len(lines))
    story = "".join(f"{line}\n" for line in lines[:end])
    expected = "".join(f"{line}\n" for line in lines[end + 1 :])
    script = Script(name, story=story, expected=expected)
    for number, line in enumerate(lines[:end], 1):
        words = _without_comment(line)
        if words:
            _read_line(script, words, f"{name}:{number}")
    script.problems += _missing(script)
    script.problems += _said_twice(script)
    return script


def _without_comment(line: str) -> str:
    """A comment begins at a ``#`` at the start or after a blank."""
    return re.sub(r"(^|\s)#.*", "", line).strip()


def _read_line(script: Script, line: str, where: str) -> None:
    read = _happening(line, where)
    if isinstance(read, Happening):
        _take(script, read)
    else:
        script.problems.append(read)
        script.doubtful.update(_setting_meant(line))


def _happening(line: str, where: str) -> Happening | Problem:
    timed = _AT.fullmatch(line)
    words = timed[2] if timed else line
    try:
        at = parse_duration(timed[1]) if timed else None
        found = next(_matches(words), None)
    except ValueError as error:
        return Problem.told(str(error), where=where)
    if found is None:
        return Problem(f"cannot read {line!r}", where=where, fix=_meant(words))
    form, values = found
    if form.at is not None and form.at != bool(timed):
        fix = f"at 40s {form.usage}" if form.at else form.usage
        what = "this needs a time" if form.at else "this has no time"
        return Problem(what, where=where, fix=f"write it as `{fix}`")
    return Happening(form.kind, at, values, where)


def _setting_meant(line: str) -> list[str]:
    """The key that a line which cannot be read was probably meant to set."""
    first, *rest = re.split(r"[\s=]+", line)
    match closest(first, [*_FIRST_WORDS, "at"]):
        case "machine":
            return ["machine"]
        case "workers":
            return [_WORKERS]
        case "set":
            return rest[:1]
    return []


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
        return did_you_mean(first, [*_FIRST_WORDS, "at"])
    likely = difflib.get_close_matches(words, usages, n=3, cutoff=0.0)
    return f"did you mean {' or '.join(f'`{usage}`' for usage in likely)}?"


def _take(script: Script, happening: Happening) -> None:
    values = happening.values
    if happening.kind == "machine":
        script.machines = tuple(re.split(r"\s*,\s*", values["NAMES"]))
        _take_setting(script, "machine", happening)
    elif happening.kind in _OVERRIDES:
        word = _OVERRIDES[happening.kind].format(**values)
        script.overrides.append(word)
        _take_setting(script, key_of(word), happening)
    else:
        script.happenings.append(happening)


def _take_setting(script: Script, key: str, line: Happening) -> None:
    first = script.places.setdefault(key, line.where)
    if first != line.where:
        script.problems.append(_twice(key, first, line.where))
        script.doubtful.add(key)


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

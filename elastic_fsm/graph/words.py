"""The words of ``elastic-fsm graph``."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.problems import BadInput, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HELP", "GraphWords", "split_graph_words"]

HELP = """\
elastic-fsm graph [options] [name=value ...]: draw the machine

  -o FILE           where to: .svg .png .dot .mmd .md .json .scxml .txt (the terminal, as text)
  --format F        text, svg, png, dot, mermaid, table, page, xstate, scxml, transitions
  -c FILE           a YAML file on top of the defaults
  --run [RUN_DIR]   over a run's journal: where it is, its way, counts, times (elastic_runs/latest)
  --diff machine=A,B   what B adds to A and takes from it
  --no-any          without what happens from every state
  --check FILE      fail when a page, or an SVG, is stale; may be given several times

A page (.md) keeps what stands around its blocks; each begins with
<!-- elastic-fsm graph WORDS --> and ends with <!-- end -->.
"""

_OVERRIDE = re.compile(r"(\+{1,2})?[A-Za-z_][\w.@/:-]*=|~[A-Za-z_]", re.ASCII)
_FLAGS = ("--no-any", "--help", "-h")
_WITH_VALUE = ("-o", "--output", "--format", "-c", "--config", "--check", "--diff")


@dataclass(slots=True)
class GraphWords:
    """A command line, taken apart."""

    overrides: list[str] = field(default_factory=list)
    job_file: Path | None = None
    output: Path | None = None
    format: str = ""
    wants_run: bool = False
    run: Path | None = None
    checks: list[Path] = field(default_factory=list)
    diff: tuple[str, str] | None = None
    with_any: bool = True
    help: bool = False

    def again(self) -> str:
        """The words that choose what is drawn, for a stamp or a block."""
        parts = [*self.overrides]
        parts += ["-c", str(self.job_file)] if self.job_file else []
        parts += ["--diff", f"machine={','.join(self.diff)}"] if self.diff else []
        parts += ["--run", *([str(self.run)] if self.run else [])] if self.wants_run else []
        parts += ["--no-any"] if not self.with_any else []
        return shlex.join(parts)


def split_graph_words(argv: Sequence[str]) -> GraphWords:
    """Take a command line apart. Raises :class:`BadInput` for what is not understood."""
    words = GraphWords()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if not word.startswith("-") and _OVERRIDE.match(word):
            words.overrides.append(word)
        elif name == "--run":
            words.wants_run = True
            words.run = _run_folder(value, rest)
        elif name in _WITH_VALUE:
            _option(words, name, value or _value(name, rest))
        elif word in _FLAGS:
            words.with_any &= word != "--no-any"
            words.help |= word != "--no-any"
        else:
            raise _bad(f"{word!r} is no word of graph", did_you_mean(word, [*_FLAGS, *_WITH_VALUE]))
    return words


def _run_folder(value: str, rest: list[str]) -> Path | None:
    if value:
        return Path(value)
    if rest and not rest[0].startswith("-"):
        given = Path(rest[0])
        if given.exists() or not _OVERRIDE.match(rest[0]):
            return Path(rest.pop(0))
    return None


def _value(name: str, rest: list[str]) -> str:
    if not rest:
        raise _bad(f"{name} needs a value", "see elastic-fsm graph --help")
    return rest.pop(0)


def _option(words: GraphWords, name: str, value: str) -> None:
    match name:
        case "-o" | "--output":
            words.output = Path(value)
        case "-c" | "--config":
            words.job_file = Path(value)
        case "--check":
            words.checks.append(Path(value))
        case "--diff":
            words.diff = _two_machines(value)
        case _:
            words.format = value


def _two_machines(value: str) -> tuple[str, str]:
    old, comma, new = value.removeprefix("machine=").partition(",")
    if not (old and comma and new) or "," in new:
        raise _bad(f"--diff {value} does not name two machines", "--diff machine=elastic,fail_fast")
    return old, new


def _bad(what: str, fix: str) -> BadInput:
    return BadInput.of(what, where="command line", fix=fix)

"""The words of ``elastic-fsm graph``."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.problems import COMMAND_LINE, BadInput
from elastic_fsm.words import Grammar

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

_GRAMMAR = Grammar(
    flags=["--no-any"],
    repeated=["--check"],
    valued={
        "-o": "machine.svg",
        "-c": "job.yaml",
        "--format": "mermaid",
        "--run": "[RUN_DIR]",
        "--diff": "machine=elastic,fail_fast",
        "--check": "machine.md",
    },
)


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
    words = _GRAMMAR.read(argv)
    values = words.values
    return GraphWords(
        overrides=words.overrides,
        job_file=words.job_file,
        output=words.path("-o"),
        format=values.get("--format", [""])[-1],
        wants_run="--run" in values,
        run=words.path("--run"),
        checks=[Path(page) for page in values.get("--check", [])],
        diff=_two_machines(values["--diff"][-1]) if "--diff" in values else None,
        with_any="--no-any" not in words.flags,
        help="--help" in words.flags,
    )


def _two_machines(value: str) -> tuple[str, str]:
    old, comma, new = value.removeprefix("machine=").partition(",")
    if not (old and comma and new) or "," in new:
        what = f"--diff {value} does not name two machines"
        raise BadInput.of(what, where=COMMAND_LINE, fix="--diff machine=elastic,fail_fast")
    return old, new

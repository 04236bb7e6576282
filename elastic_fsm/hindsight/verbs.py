"""The verbs ``explain``, ``status`` and ``replay``: words in, text out, an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from elastic_fsm.hindsight.words import read_words
from elastic_fsm.journal_reader import find_run
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["explain", "replay", "status"]

_EXPLAIN = """\
elastic-fsm explain [RUN_DIR] [--json] [--html FILE]

Why the run restarted, stopped or failed: what happened, what was decided and by which conditions,
where the time went. RUN_DIR: a run's folder, a node's folder or a journal file; the latest run of
elastic_runs by default.

  --json         the same for programs
  --html FILE    one page with pictures, to send to somebody; - writes it to standard output
"""
_STATUS = """\
elastic-fsm status [FOLDER] [--json]

The runs below FOLDER (elastic_runs by default), or one of them, and where they are.
"""
_REPLAY = """\
elastic-fsm replay [RUN_DIR] [-c FILE] [overrides]

Gives the events of a run's journal to its machine again; exit code 1 when a step is another one.
With overrides it shows where another machine would have gone another way: machine=fail_fast, or
changes to the run's own, machine.transitions.restart.conditions=[]. Nothing is started.
"""


def explain(argv: Sequence[str]) -> int:
    """``elastic-fsm explain``."""
    words = read_words(argv, flags=("--json", "--help", "-h"), with_value=("--html",))
    if words.flags & {"--help", "-h"}:
        print(_EXPLAIN, end="")
        return 0
    from elastic_fsm.hindsight.explain import story_of
    from elastic_fsm.hindsight.explain_text import render

    stories = [story_of(node) for node in find_run(words.folder)]
    if "--json" in words.flags:
        print(json.dumps([story.to_dict() for story in stories], indent=1))
    if target := words.values.get("--html"):
        from elastic_fsm.hindsight.page import render_page

        _write(target, render_page(stories))
    if not (words.values or "--json" in words.flags):
        print("\n".join(map(render, stories)), end="")
    return 0


def status(argv: Sequence[str]) -> int:
    """``elastic-fsm status``."""
    words = read_words(argv, flags=("--json", "--help", "-h"))
    if words.flags & {"--help", "-h"}:
        print(_STATUS, end="")
        return 0
    from elastic_fsm.hindsight.status import render, status_of, to_json

    nodes = status_of(words.folder)
    print(to_json(nodes) + "\n" if "--json" in words.flags else render(nodes), end="")
    return 0


def replay(argv: Sequence[str]) -> int:
    """``elastic-fsm replay``."""
    words = read_words(argv, flags=("--help", "-h"), with_value=("-c",), overrides=True)
    if words.flags:
        print(_REPLAY, end="")
        return 0
    from elastic_fsm.hindsight.replaying import replay_node

    print("replay starts nothing: it compares what is written with what a machine does")
    job_file = Path(words.values["-c"]) if "-c" in words.values else None
    same = True
    for node in find_run(words.folder):
        text, agrees = replay_node(node, words.overrides, job_file)
        print(text, end="")
        same = same and agrees
    return 0 if same else 1


def _write(target: str, page: str) -> None:
    if target == "-":
        print(page, end="")
        return
    try:
        Path(target).write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadInput.of(
            f"the page cannot be written: {error.strerror}: {target}",
            where="command line",
            fix="--html FILE",
        ) from error
    print(f"wrote {target}")

"""The verbs ``explain``, ``status`` and ``replay``: words in, text out, an exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from elastic_fsm.journal_reader import find_run
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem
from elastic_fsm.words import Grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

__all__ = ["explain", "replay", "status"]

T = TypeVar("T")

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
It imports the plugins that the journal names, so replay only journals that you trust.
With overrides it shows where another machine would have gone another way: machine=fail_fast, or
changes to the run's own, 'machine.transitions.restart.conditions=[{exit_code_in: [75]}]'.
Nothing is started.
"""


def explain(argv: Sequence[str]) -> int:
    """``elastic-fsm explain``."""
    words = Grammar(["--json"], {"--html": "FILE"}, overrides=False, last="place").read(argv)
    if "--help" in words.flags:
        print(_EXPLAIN, end="")
        return 0
    from elastic_fsm.hindsight.explain import story_of
    from elastic_fsm.hindsight.explain_text import render

    stories, problems = _each(find_run(words.place), story_of)
    if "--json" in words.flags:
        print(json.dumps([story.to_dict() for story in stories], indent=1))
    if target := words.path("--html"):
        from elastic_fsm.hindsight.page import render_page

        _write(target, render_page(stories))
    if not (words.values or "--json" in words.flags):
        print("\n".join(map(render, stories)), end="")
    _raise(problems)
    return 0


def status(argv: Sequence[str]) -> int:
    """``elastic-fsm status``."""
    words = Grammar(["--json"], overrides=False, last="place").read(argv)
    if "--help" in words.flags:
        print(_STATUS, end="")
        return 0
    from elastic_fsm.hindsight.status import render, status_of, to_json

    nodes = status_of(words.place)
    print(to_json(nodes) + "\n" if "--json" in words.flags else render(nodes), end="")
    return 0


def replay(argv: Sequence[str]) -> int:
    """``elastic-fsm replay``."""
    words = Grammar(valued={"-c": "job.yaml"}, last="place").read(argv)
    if "--help" in words.flags:
        print(_REPLAY, end="")
        return 0
    from elastic_fsm.hindsight.replaying import replay_node

    nodes = find_run(words.place)
    print("replay starts nothing: it compares what is written with what a machine does")
    outcomes, problems = _each(
        nodes, lambda node: replay_node(node, words.overrides, words.job_file)
    )
    print("".join(text for text, _ in outcomes), end="")
    _raise(problems)
    return 0 if all(agrees for _, agrees in outcomes) else 1


def _each(nodes: Sequence[Path], read: Callable[[Path], T]) -> tuple[list[T], list[Problem]]:
    """What is made of each node, and what is wrong with others: a bad one hides no good one.

    Raises :class:`BadInput` when all are bad.
    """
    made: list[T] = []
    problems: dict[Problem, None] = {}
    for node in nodes:
        try:
            made.append(read(node))
        except BadInput as error:
            problems |= dict.fromkeys(error.problems)
    if not made:
        _raise(problems)
    return made, list(problems)


def _raise(problems: Collection[Problem]) -> None:
    if problems:
        raise BadInput(problems)


def _write(target: Path, page: str) -> None:
    if str(target) == "-":
        print(page, end="")
        return
    try:
        target.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise BadInput.of(
            f"the page cannot be written: {error.strerror}: {target}",
            where=COMMAND_LINE,
            fix="--html FILE",
        ) from error
    print(f"wrote {target}")

"""The verb ``elastic-fsm graph``: from words to a drawing, and where it goes.

What was asked for and could not be made is a failure (exit code 1), never a silent zero: where
no program is found that draws, the text for one is written beside the file that was asked for,
with a line that says how to get pictures.
"""

from __future__ import annotations

import re
import shlex
import sys
from typing import TYPE_CHECKING

from elastic_fsm.graph.difference import compare
from elastic_fsm.graph.drawing import FORMATS, PICTURES, Drawing, format_of, read_spec, write
from elastic_fsm.graph.extract import diagram_of
from elastic_fsm.graph.pages import first_difference, read_text, write_page
from elastic_fsm.graph.pictures import HOW_TO_GET_PICTURES, made_of, stamp
from elastic_fsm.graph.words import HELP, GraphWords, split_graph_words
from elastic_fsm.printable import printable
from elastic_fsm.problems import COMMAND_LINE, BadInput, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from elastic_fsm.graph.model import Diagram

__all__ = ["graph"]


def graph(argv: Sequence[str]) -> int:
    """Carry out the verb. Raises :class:`BadInput` for what cannot be drawn, read or written."""
    words = split_graph_words(argv)
    if words.help:
        print(HELP, end="")
        return 0
    if words.checks:
        return max(_check(path) for path in words.checks)
    name = _format(words)
    if name == "page" and words.output:
        write_page(words.output, words.again(), _block)
        return 0
    drawing = drawing_of(words)
    return (
        _picture(drawing, name, words.output) if name in PICTURES else _text(drawing, name, words)
    )


def _format(words: GraphWords) -> str:
    name = words.format or (format_of(words.output) if words.output else "text")
    if name not in FORMATS and name not in PICTURES:
        fix = did_you_mean(name, [*FORMATS, *PICTURES])
        raise BadInput.of(f"there is no format {name!r}", where=COMMAND_LINE, fix=fix)
    return name


def drawing_of(words: GraphWords) -> Drawing:
    """What the words ask to be drawn. Raises :class:`BadInput`."""
    if words.diff:
        if words.wants_run:
            what = "--run and --diff do not go together"
            raise BadInput.of(what, where=COMMAND_LINE, fix="leave one of them out")
        old, new = (_composed([*words.overrides, f"machine={m}"], words) for m in words.diff)
        found = compare(old, new)
        return Drawing(found.both, found.layer, words.with_any, found.text, words.again())
    if words.wants_run:
        return _drawing_of_run(words)
    return Drawing(_composed(words.overrides, words), None, words.with_any, words=words.again())


def _composed(overrides: Sequence[str], words: GraphWords) -> Diagram:
    from elastic_fsm.config import compose

    composed = compose(list(overrides), job_file=words.job_file)
    try:
        spec = read_spec(composed.masked()["machine"])
    except BadInput as error:
        raise BadInput(map(composed.locate, error.problems)) from error
    chosen = [word for word in overrides if re.fullmatch(r"machine=\w+", word)]
    name = chosen[-1].removeprefix("machine=") if chosen else _name(words.job_file)
    return diagram_of(spec, name)


def _name(job_file: Path | None) -> str:
    """Of a machine that no word names; a pipe's name says nothing."""
    if job_file is None:
        return "elastic"
    return job_file.stem if job_file.is_file() else "machine"


def _drawing_of_run(words: GraphWords) -> Drawing:
    from elastic_fsm.graph.run_layer import layer_of_run
    from elastic_fsm.hindsight.liveness import read_up_to_now
    from elastic_fsm.journal_reader import find_run

    folders = find_run(words.run)
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders[:8]) + (", …" * (len(folders) > 8))
        what = f"the run has {len(folders)} nodes, and one picture holds one: {names}"
        fix = f"name one of them, as in --run {folders[0]}"
        raise BadInput.of(what, where=COMMAND_LINE, fix=fix)
    journal = read_up_to_now(folders[0])
    for remark in journal.remarks():
        print(f"elastic-fsm: {printable(remark)}", file=sys.stderr)
    try:
        diagram = diagram_of(read_spec(journal.header["machine"]))
    except BadInput as error:
        raise journal.blame_header(error) from error
    return Drawing(diagram, layer_of_run(diagram, journal), words.with_any, words=words.again())


def _text(drawing: Drawing, name: str, words: GraphWords) -> int:
    text = drawing.render(name)
    if words.output:
        write(words.output, text.encode())
    else:
        print(printable(text), end="")
    return 0


def _picture(drawing: Drawing, kind: str, output: Path | None) -> int:
    if output is None and kind == "png":
        raise BadInput.of("a PNG goes into a file", where=COMMAND_LINE, fix="-o machine.png")
    made = drawing.picture(kind)
    if made is None:
        return _instead_of_a_picture(drawing, output)
    if output:
        write(output, made)
    else:
        print(made.decode(), end="")
    return 0


def _instead_of_a_picture(drawing: Drawing, output: Path | None) -> int:
    text = drawing.render("dot")
    if output is None:
        print(text, end="")
        print(f"elastic-fsm: no program that draws; {HOW_TO_GET_PICTURES}", file=sys.stderr)
        return 1
    instead = output.with_suffix(".dot")
    write(instead, text.encode())
    print(
        f"elastic-fsm: no program that draws, so {instead} was written, not {output}; "
        f"{HOW_TO_GET_PICTURES}",
        file=sys.stderr,
    )
    return 1


def _block(text: str) -> str:
    """What stands in a block of a page."""
    words = split_graph_words(shlex.split(text))
    name = words.format or "page"
    if name not in FORMATS:
        raise BadInput.of(f"a page cannot hold {name!r}", where=f"block {text}", fix="use text")
    made = drawing_of(words).render(name)
    return made if name in ("page", "table") else f"```{_FENCES.get(name, '')}\n{made}```\n"


_FENCES = {"mermaid": "mermaid", "dot": "dot", "xstate": "json", "scxml": "xml"}


def _check(path: Path) -> int:
    where = _stale_picture(path) if path.suffix == ".svg" else _stale_page(path)
    if where is None:
        return 0
    again = made_of(read_text(path)) if path.suffix == ".svg" else None
    words = f"{again[0]} -o {path}" if again else f"-o {path}"
    print(f"elastic-fsm: {where} is stale; to renew it: elastic-fsm graph {words}", file=sys.stderr)
    return 1


def _stale_page(path: Path) -> str | None:
    line = first_difference(path, _block)
    return None if line is None else f"{path}:{line}"


def _stale_picture(path: Path) -> str | None:
    """By its stamp, which does not need a program that draws."""
    found = made_of(read_text(path))
    if found is None:
        fix = f"to make it anew: elastic-fsm graph -o {path}"
        raise BadInput.of("it was not made by elastic-fsm graph", where=str(path), fix=fix)
    words = split_graph_words(shlex.split(found[0]))
    drawing = drawing_of(words)
    return None if stamp(drawing.render("dot"), drawing.words) == found[1] else str(path)

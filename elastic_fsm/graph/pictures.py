"""SVG and PNG, by whichever program for it is there: Graphviz' ``dot`` or ``graphviz-pure``.

Both are run as they are, text in and picture out, without a shell. An SVG gets a style sheet
that turns it dark for readers who prefer that, and a comment with what it was made of, so that
whether it is up to date can be told without drawing it again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from elastic_fsm.graph.palette import dark_style
from elastic_fsm.problems import BadInput

__all__ = ["HOW_TO_GET_PICTURES", "draw", "find_program", "made_of", "stamp"]

HOW_TO_GET_PICTURES = (
    "for pictures install Graphviz (apt install graphviz, brew install graphviz) "
    "or pip install 'elastic-fsm[pictures]'"
)
_STAMP = re.compile(r"<!-- elastic-fsm graph ([^>]*?) made of ([0-9a-f]{16}) -->")
_TIMEOUT = 60.0


def find_program() -> list[str] | None:
    """The program that draws, as the beginning of a command; None when there is none."""
    if dot := shutil.which("dot"):
        return [dot]
    # A package installed into an environment that is not activated has its programs here.
    places = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    pure = shutil.which("graphviz-pure", path=places)
    return [pure] if pure else None


def draw(dot: str, kind: str, *, words: str = "") -> bytes | None:
    """A picture of DOT text, ``svg`` or ``png``; None when nothing is there that can draw.

    ``words`` are kept in an SVG: the command line that would make it again. Raises
    :class:`BadInput` when the program fails, or what it made is no picture.
    """
    program = find_program()
    if program is None:
        return None
    command = [*program, f"-T{kind}"]
    try:
        made = subprocess.run(
            command, input=dot.encode(), capture_output=True, check=True, timeout=_TIMEOUT
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        raise _failed(program, said.decode(errors="replace").strip() or error) from error
    if not _is_picture(made, kind):
        raise _failed(program, f"what it wrote is no {kind.upper()}")
    return _finish_svg(made.decode(), dot, words).encode() if kind == "svg" else made


def _failed(program: list[str], why: object) -> BadInput:
    fix = "use --format dot for the text alone"
    return BadInput.of(f"{program[0]} failed: {why}", where="graph", fix=fix)


def _is_picture(made: bytes, kind: str) -> bool:
    if kind == "png":
        return made.startswith(b"\x89PNG")
    try:
        return re.search("<svg[^>]*>", made.decode()) is not None
    except UnicodeDecodeError:
        return False


def _finish_svg(svg: str, dot: str, words: str) -> str:
    svg = svg.replace('font-family="Arial"', 'font-family="Arial,Helvetica,sans-serif"')
    begin = svg.index("<svg")
    inside = svg.index(">", begin) + 1
    style = f"\n<style>{dark_style()}</style>"
    return f"{stamp(dot, words)}\n{svg[begin:inside]}{style}{svg[inside:]}"


def stamp(dot: str, words: str) -> str:
    """The comment that says how a picture was made and of what."""
    digest = hashlib.sha256(dot.encode()).hexdigest()[:16]
    return f"<!-- elastic-fsm graph {words.replace('--', '- -')} made of {digest} -->"


def made_of(svg: str) -> tuple[str, str] | None:
    """The words of the command line that made a picture, and its whole stamp."""
    found = _STAMP.search(svg)
    return (found[1].replace("- -", "--").strip(), found[0]) if found else None

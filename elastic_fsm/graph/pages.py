"""Markdown pages that hold graphs, and whether they are up to date.

A page is written by hand but for its blocks. A block begins with a comment that holds the words
of the command line which makes it, and ends with another; ``graph -o`` makes all blocks of a page
anew, and ``graph --check`` tells whether that would change anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from elastic_fsm.graph.drawing import write
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["first_difference", "read_text", "renew", "write_page"]

_BLOCK = re.compile(
    r"(?P<head><!-- elastic-fsm graph(?P<words>[^\n]*?) -->\n).*?(?P<tail><!-- end -->)", re.DOTALL
)


def renew(page: str, make: Callable[[str], str]) -> str:
    """The page with every block made anew; ``make`` turns a block's words into its content."""
    return _BLOCK.sub(lambda m: f"{m['head']}\n{make(m['words'].strip())}\n{m['tail']}", page)


def write_page(path: Path, words: str, make: Callable[[str], str]) -> None:
    """Renew a page, or begin one with a single block of these words.

    Raises :class:`BadInput` for a page that has no block: whatever is in it is not ours.
    """
    words = words or "machine=elastic"
    if not path.exists():
        page = f"# The machine\n\n<!-- elastic-fsm graph {words} -->\n<!-- end -->\n"
    else:
        page = read_text(path)
        _demand_block(path, page, words)
    write(path, renew(page, make).encode())


def _demand_block(path: Path, page: str, words: str) -> None:
    if not _BLOCK.search(page):
        fix = f"put `<!-- elastic-fsm graph {words} -->` and `<!-- end -->` where it belongs"
        raise BadInput.of("the page has no block for a graph", where=str(path), fix=fix)


def first_difference(path: Path, make: Callable[[str], str]) -> int | None:
    """The number of the first line that is stale; None when the page is up to date."""
    page = read_text(path)
    _demand_block(path, page, "machine=elastic")
    fresh = renew(page, make)
    if fresh == page:
        return None
    old, new = page.splitlines(), fresh.splitlines()
    pairs = enumerate(zip(old, new, strict=False), start=1)
    shorter = min(len(old), len(new)) + 1
    return next((number for number, (a, b) in pairs if a != b), shorter)


def read_text(path: Path) -> str:
    """A file's text. Raises :class:`BadInput` when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "is not text"
        fix = f"to make it: elastic-fsm graph -o {path}"
        raise BadInput.of(f"cannot be read: {what}", where=str(path), fix=fix) from error

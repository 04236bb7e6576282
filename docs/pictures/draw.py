"""Draw the pictures that are written by hand, as `agent.dot` is, into an SVG beside each.

With `--check` nothing is drawn; it ends with 1 when a picture does not fit its source.
"""

from __future__ import annotations

import sys
from pathlib import Path

from elastic_fsm.graph.pictures import HOW_TO_GET_PICTURES, draw, made_of, stamp

HERE = Path(__file__).parent


def is_fresh(source: Path) -> bool:
    """By the stamp in the picture, which does not need a program that draws."""
    picture = source.with_suffix(".svg")
    found = made_of(picture.read_text()) if picture.exists() else None
    return found is not None and found[1] == stamp(source.read_text(), source.name)


def renew(source: Path) -> None:
    """Draw it."""
    picture = draw(source.read_text(), "svg", words=source.name)
    if picture is None:
        sys.exit(f"no program that draws; {HOW_TO_GET_PICTURES}")
    source.with_suffix(".svg").write_bytes(picture)


def main() -> None:
    sources = sorted(HERE.glob("*.dot"))
    if sys.argv[1:] != ["--check"]:
        for source in sources:
            renew(source)
    elif stale := [source.name for source in sources if not is_fresh(source)]:
        sys.exit(f"not drawn anew: {', '.join(stale)}; python docs/pictures/draw.py")


if __name__ == "__main__":
    main()

"""The colours of pictures, each for light and for dark.

Pictures are drawn in the light colours, which stand in the file as plain attributes; an SVG also
carries a style sheet that swaps each of them for its dark partner where the reader prefers dark.
So nothing has to be drawn twice, and a program that knows no style sheets shows the light one.
Every group has a colour of its own, text stands out from its ground by 4.5 to 1 at least.
"""

from __future__ import annotations

__all__ = ["GROUPS", "MIXED", "PAPER", "Colours", "dark_style"]

PAPER = "#fefefe"

# By worker state: ground and border of the group.
GROUPS = {
    "INIT": ("#eef1f5", "#b4bfcc"),
    "HEALTHY": ("#e4f5e7", "#95cfa1"),
    "UNHEALTHY": ("#fdefdc", "#e5b878"),
    "STOPPED": ("#e4effc", "#97bde8"),
    "SUCCEEDED": ("#dcf4f1", "#7dc6bd"),
    "FAILED": ("#fce6e6", "#e3a0a0"),
    "UNKNOWN": ("#f1e8fa", "#c3a5e0"),
}
MIXED = ("#f0f0e6", "#c4c39d")
"""The group of states that may show one thing or another."""


class Colours:
    """What the parts of a picture are drawn in."""

    TEXT = "#1f2329"
    QUIET_TEXT = "#5b636e"
    GUARD = "#6b33b5"
    ACTION = "#0a6464"
    LINE = "#77808c"
    ROAD = "#20252b"
    ANY = "#a3abb5"
    BOX = "#ffffff"
    BOX_LINE = "#565e69"
    CURRENT = "#ffd84a"
    CURRENT_LINE = "#8a6200"
    CURRENT_TEXT = "#1e1a00"
    LAST = "#c04a00"
    TAKEN = "#0b62c4"
    FAINT = "#b5bbc3"
    FAINT_TEXT = "#6d7580"
    ADDED = "#157f33"
    REMOVED = "#cd2330"


_DARK = {
    PAPER: "#12161c",
    "#eef1f5": "#20262e",
    "#b4bfcc": "#4d5967",
    "#e4f5e7": "#14291a",
    "#95cfa1": "#3a6b47",
    "#fdefdc": "#322411",
    "#e5b878": "#856027",
    "#e4effc": "#14253a",
    "#97bde8": "#3a638f",
    "#dcf4f1": "#0f2b2a",
    "#7dc6bd": "#2c6f69",
    "#fce6e6": "#351a1c",
    "#e3a0a0": "#854548",
    "#f1e8fa": "#281d36",
    "#c3a5e0": "#674a85",
    "#f0f0e6": "#29291d",
    "#c4c39d": "#66653f",
    Colours.TEXT: "#e8ecf1",
    Colours.QUIET_TEXT: "#a0a9b4",
    Colours.GUARD: "#cfa9ff",
    Colours.ACTION: "#62d3cb",
    Colours.LINE: "#8b95a1",
    Colours.ROAD: "#f3f5f8",
    Colours.ANY: "#5c6570",
    Colours.BOX: "#1a1f27",
    Colours.BOX_LINE: "#a5aeb9",
    Colours.CURRENT: "#e9bd24",
    Colours.CURRENT_LINE: "#fff0b0",
    # Dark on yellow in both.
    Colours.CURRENT_TEXT: "#1e1a00",
    Colours.LAST: "#ff9248",
    Colours.TAKEN: "#6fb1ff",
    Colours.FAINT: "#4a525c",
    Colours.FAINT_TEXT: "#868f9a",
    Colours.ADDED: "#54d17a",
    Colours.REMOVED: "#ff7b80",
}


def dark_style() -> str:
    """The style sheet that turns a picture dark for whoever prefers that."""
    rules = (
        f'[{kind}="{light}"]{{{kind}:{dark}}}'
        for light, dark in _DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark){{{''.join(rules)}}}"

"""The documentation as a site: `make docs`. The pages are Markdown that GitHub shows as well.

The list of pages in a README.md is the table of contents of the pages below it, so that there is
one list only. Files of the repository that a page links to come with the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "elastic_fsm"
author = "The elastic_fsm developers"
copyright = author
root_doc = "README"
exclude_patterns = ["_build"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]

myst_heading_anchors = 4

# Each name in a docstring or a signature must lead somewhere.
nitpicky = True
nitpick_ignore_regex = [
    # Halves of types that Sphinx does not parse, type variables, the standard library.
    ("py:class", r".*\[.*|(.*\.)?[FPR]|signal\.Signals|(pathlib\.)?Path"),
    # What is not on the page of the API: for readers of the code.
    ("py:.*", r"Machine(Spec)?|Diagram|Layer|Clock|OnExit|FileTimerRequest|_get_error_file_path"),
]
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "elastic_fsm"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["wide.css"]
# What a web server shows for the folder.
templates_path = ["templates"]
html_additional_pages = {"index": "to_contents.html"}

HERE = Path(__file__).parent


def prepare_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the contents, and show links to folders, which a site does not have, as text."""
    folder = (HERE / name).parent

    def without_link(link: re.Match[str]) -> str:
        return link[1] if (folder / link[2]).is_dir() else link[0]

    text = re.sub(r"\[([^]\n]+)\]\(([^)#:\n]+)\)", without_link, source[0])
    source[0] = text + (contents(text) if Path(name).name == "README" else "")


def contents(text: str) -> str:
    """The pages that a text links to, in that order."""
    pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", text))
    return "\n".join(["\n```{toctree}", ":hidden:", *pages, "```\n"])


def setup(app: Sphinx) -> None:
    app.connect("source-read", prepare_page)

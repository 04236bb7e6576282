"""Where our YAML files are, and how a user would write the name of a file."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["conf_dir", "shown"]


def conf_dir() -> Path:
    """The folder that holds ``elastic_fsm/run.yaml``.

    A wheel carries it inside the package; in a checkout (and so in an editable install) it
    stands beside the package, where an edit is live.
    """
    package = Path(__file__).resolve().parent.parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def shown(path: str | os.PathLike[str]) -> str:
    """``path`` as one would type it here: relative when it is below the current folder."""
    absolute = os.path.abspath(path)
    below = absolute.startswith(os.getcwd().rstrip(os.sep) + os.sep)
    return os.path.relpath(absolute) if below else os.fspath(path)

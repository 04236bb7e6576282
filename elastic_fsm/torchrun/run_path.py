"""``--run-path``: a script that is run through ``runpy`` by a process that is ours."""

from __future__ import annotations

import runpy
import sys

__all__ = ["run_script_path"]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a Python file as ``__main__`` in this process, with these arguments."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


if __name__ == "__main__":
    from elastic_fsm.worker import record

    record(run_script_path)(*sys.argv[1:])

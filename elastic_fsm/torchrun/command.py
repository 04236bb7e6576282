"""What torchrun's workers run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from elastic_fsm.launchers.plan import interpreter
from elastic_fsm.problems import COMMAND_LINE, BadInput

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["LOCAL_RANK_OPTION", "command_of"]

LOCAL_RANK_OPTION = "--local-rank=${local_rank}"
"""What ``torch.distributed.launch`` passes to a script, unless it is told ``--use-env``."""

_RUN_PATH = "elastic_fsm.torchrun.run_path"


def command_of(args: Namespace) -> tuple[list[str], bool]:
    """The command, and whether it is that of a module. Raises :class:`BadInput`.

    A ``.py`` file needs no interpreter before it: ours, or that of ``PYTHON_EXEC``, comes of
    itself, and what torchrun does by ``-u`` is done by ``PYTHONUNBUFFERED``.
    """
    script: str = args.training_script
    arguments = [*_legacy(args), *args.training_script_args]
    if args.run_path:
        return [sys.executable, "-u", "-m", _RUN_PATH, script, *arguments], False
    if args.no_python:
        if args.module:
            fix = "leave one of them out"
            raise BadInput.of("--no-python and --module", where=COMMAND_LINE, fix=fix)
        # Ours would run it under Python; `env` runs it as it is.
        return [*(["env"] if script.endswith(".py") else []), script, *arguments], False
    if args.module or script.endswith(".py"):
        return [script, *arguments], args.module
    return [interpreter(), "-u", script, *arguments], False


def _legacy(args: Namespace) -> list[str]:
    if getattr(args, "use_env", True):
        return []
    if args.no_python:
        fix = "add --use-env: the program reads LOCAL_RANK"
        raise BadInput.of("--no-python passes no --local-rank", where=COMMAND_LINE, fix=fix)
    return [LOCAL_RANK_OPTION]

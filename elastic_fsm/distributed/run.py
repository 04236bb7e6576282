"""The names of ``torch.distributed.run``; ``python -m elastic_fsm.distributed.run`` is torchrun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.torchrun.counts import determine_local_world_size, parse_min_max_nnodes
from elastic_fsm.torchrun.launch_config import config_from_args, run
from elastic_fsm.torchrun.options import get_args_parser, parse_args
from elastic_fsm.torchrun.run_path import run_script_path
from elastic_fsm.worker import record

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
    "run_script_path",
]


@record
def main(args: Sequence[str] | None = None) -> None:
    """Launch what a command line describes; raises what :func:`run` raises."""
    run(parse_args(args))


if __name__ == "__main__":
    from elastic_fsm.entry import enter

    enter("torchrun")

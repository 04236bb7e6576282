"""The names of ``torch.distributed.launch``, which passes ``--local-rank`` to each worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.torchrun.launch_config import run
from elastic_fsm.torchrun.options import add_launch_options, get_args_parser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Sequence[str] | None) -> Namespace:
    """torchrun's options, and ``--use-env``."""
    parser = get_args_parser()
    add_launch_options(parser)
    return parser.parse_args(args)


def launch(args: Namespace) -> None:
    """Launch what the options describe. Raises ``ValueError`` for a program that gets no rank."""
    if args.no_python and not args.use_env:
        raise ValueError("--no-python passes no --local-rank; add --use-env")
    run(args)


def main(args: Sequence[str] | None = None) -> None:
    """Launch what a command line describes."""
    launch(parse_args(args))


if __name__ == "__main__":
    from elastic_fsm.entry import enter

    enter("launch")

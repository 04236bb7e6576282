"""The verbs ``torchrun`` and ``launch``: a run described in torchrun's words."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, NoReturn

from elastic_fsm.problems import COMMAND_LINE, BadInput, closest
from elastic_fsm.torchrun.options import add_launch_options, add_options
from elastic_fsm.torchrun.printing import describe, overrides
from elastic_fsm.torchrun.translation import translate

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from elastic_fsm.preparing import Prepared

__all__ = ["prepare_torchrun"]


def prepare_torchrun(argv: Sequence[str], *, legacy: bool = False) -> Prepared | None:
    """The run that a command line of torchrun describes, or of ``torch.distributed.launch``.

    None after ``--print-config``. Raises :class:`BadInput` with everything that is wrong.
    """
    from elastic_fsm.config import compose
    from elastic_fsm.preparing import prepare

    args = _read(argv, legacy=legacy)
    translation = translate(args)
    composed = compose([*overrides(translation), *args.set])
    if args.print_config:
        print(describe(translation, args.set), end="")
        return None
    return prepare(composed, translation.command, module=translation.module)


class _Parser(ArgumentParser):
    """Tells what is wrong as everything here does."""

    def error(self, message: str) -> NoReturn:
        fix = f"see {self.prog} --help"
        raise BadInput.of(message, where=COMMAND_LINE, fix=fix)


def _read(argv: Sequence[str], *, legacy: bool) -> Namespace:
    verb = "launch" if legacy else "torchrun"
    parser = _Parser(
        prog=f"elastic-fsm {verb}",
        description=f"torch's {verb} on our agent; see docs/from_torchrun.md for what differs",
        epilog="Every option may be written with underscores, and be given by PET_<NAME>.",
    )
    add_options(parser)
    if legacy:
        add_launch_options(parser)
    parser.add_argument(
        "--print-config", action="store_true", help="show the same in our words, and start nothing"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a value of our own configuration, such as machine=fail_fast; may be repeated",
    )
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        raise _unknown(unknown[0], parser)
    return args


def _unknown(word: str, parser: ArgumentParser) -> BadInput:
    bare = {option.lstrip("-"): option for option in parser._option_string_actions}
    meant = closest(word.partition("=")[0].lstrip("-").replace("_", "-"), bare)
    fix = f"did you mean {bare[meant]!r}?" if meant else f"see {parser.prog} --help"
    return BadInput.of(f"unknown option {word}", where=COMMAND_LINE, fix=fix)

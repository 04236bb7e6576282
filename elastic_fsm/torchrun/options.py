"""torchrun's command line (torch 2.13): its options, their other spellings, and ``PET_*``.

Every option has a form with dashes and one with underscores. What is not given on the command line
comes from the variable ``PET_<NAME>``; that of a flag is 0 or 1.
"""

from __future__ import annotations

import os
from argparse import REMAINDER, ArgumentParser
from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

__all__ = ["add_launch_options", "add_options", "get_args_parser", "parse_args"]

_PLACEHOLDER = "\0"


def get_args_parser() -> ArgumentParser:
    """A parser of torchrun's command line. Raises :class:`BadInput` for a flag's variable that
    is neither 0 nor 1."""
    parser = ArgumentParser(description="runs a group of workers; the command line is torchrun's")
    add_options(parser)
    return parser


def parse_args(args: Sequence[str] | None) -> Namespace:
    """The options in ``args`` (of this process, if None) as attributes, named as in torch."""
    return get_args_parser().parse_args(args)


def add_options(parser: ArgumentParser) -> None:
    """Add all options, and the workers' command."""
    for part in (_add_size, _add_rendezvous, _add_worker, _add_logs, _add_static, _add_ending):
        part(parser)
    parser.add_argument("training_script", help="what each worker runs, followed by its arguments")
    parser.add_argument("training_script_args", nargs=REMAINDER)


def add_launch_options(parser: ArgumentParser) -> None:
    """What ``torch.distributed.launch`` takes beyond that."""
    parser.add_argument(
        *_spellings("--use-env"),
        action="store_true",
        help="do not pass --local-rank to the script, which reads LOCAL_RANK",
    )


def _add_size(parser: ArgumentParser) -> None:
    _value(parser, "--nnodes", default="1:1", help="number of nodes, or MIN:MAX")
    _value(
        parser,
        "--nproc-per-node",
        default="1",
        help="workers on this node: a number, auto, cpu, gpu, xpu",
    )


def _add_rendezvous(parser: ArgumentParser) -> None:
    _value(parser, "--rdzv-backend", default="static", help="how the nodes meet")
    _value(parser, "--rdzv-endpoint", default="", help="where they meet: host:port")
    _value(parser, "--rdzv-id", default="none", help="the same on all nodes of a run")
    _value(parser, "--rdzv-conf", default="", help="key=value,... for the backend")
    _flag(parser, "--standalone", help="this node alone, whatever else is said of nodes")


def _add_worker(parser: ArgumentParser) -> None:
    _value(parser, "--max-restarts", type=int, default=0, help="restarts that failures may cost")
    _value(
        parser,
        "--monitor-interval",
        type=float,
        default=0.1,
        help="seconds between two looks for nodes that wait",
    )
    _value(
        parser,
        "--start-method",
        default="spawn",
        choices=["spawn", "fork", "forkserver"],
        help="of functions; has no effect on scripts",
    )
    _value(parser, "--event-log-handler", default="null", help="where event records go")
    _value(parser, "--role", default="default", help="the workers' role")
    _flag(parser, "-m", "--module", help="the script is a module, as for python -m")
    _flag(parser, "--no-python", help="start the script itself, without python")
    _flag(parser, "--run-path", help="run the script through runpy; beats --no-python")
    _flag(parser, "--virtual-local-rank", help="each worker sees LOCAL_RANK=0 and its own device")


def _add_logs(parser: ArgumentParser) -> None:
    _value(parser, "--log-dir", default=None, help="folder of the log files")
    streams = "1 stdout, 2 stderr, 3 both, or by local rank 0:3,1:1"
    _value(parser, "-r", "--redirects", default="0", help=f"streams to files: {streams}")
    _value(parser, "-t", "--tee", default="0", help="streams to files and to the console")
    _value(parser, "--local-ranks-filter", default="", help="local ranks shown on the console: 0,1")
    for stream in ("stdout", "stderr"):
        _value(
            parser,
            f"--duplicate-{stream}-filters",
            type=_comma_separated,
            default=[],
            help=f"copy lines of teed {stream} with one of these words to a file",
        )
    parser.add_argument(
        *_spellings("--logs-specs"), default=None, help="a plug-in that places the logs"
    )


def _add_static(parser: ArgumentParser) -> None:
    _value(parser, "--node-rank", type=int, default=0, help="this node's number (static)")
    _value(parser, "--master-addr", default="127.0.0.1", help="address of node 0 (static)")
    _value(parser, "--master-port", type=int, default=None, help="port there (29500)")
    _value(parser, "--local-addr", default=None, help="this node's address, as others reach it")
    parser.add_argument(*_spellings("--numa-binding"), default=None, help="not offered")


def _add_ending(parser: ArgumentParser) -> None:
    _value(
        parser,
        "--signals-to-handle",
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="signals that stop the run",
    )
    _value(
        parser,
        "--shutdown-timeout",
        type=int,
        default=None,
        help="seconds from the stop signal to SIGKILL (TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30)",
    )


def _value(parser: ArgumentParser, *names: str, default: Any, **more: Any) -> None:
    default = os.environ.get(_variable(names), default)
    parser.add_argument(*_spellings(*names), default=default, **more)


def _flag(parser: ArgumentParser, *names: str, help: str) -> None:
    text = os.environ.get(_variable(names), "0")
    try:
        default = bool(int(text))
    except ValueError:
        raise BadInput.of(
            f"{text!r} is no switch", where=_variable(names), fix="write 0 or 1"
        ) from None
    parser.add_argument(*_spellings(*names), action="store_true", default=default, help=help)


def _variable(names: Sequence[str]) -> str:
    return f"PET_{names[-1].lstrip('-').replace('-', '_').upper()}"


def _spellings(*names: str) -> list[str]:
    underscored = [f"--{name[2:].replace('-', '_')}" for name in names if name.startswith("--")]
    return list(dict.fromkeys([*names, *underscored]))


def _comma_separated(text: str) -> list[str]:
    """Two commas are a comma within a word."""
    words = text.replace(",,", _PLACEHOLDER).split(",")
    return [word.replace(_PLACEHOLDER, ",") for word in words]

"""torchrun's options as a ``LaunchConfig``, for programs that launch with torch's own functions."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.plan import interpreter
from elastic_fsm.logs.choice import make_logs_specs
from elastic_fsm.rundir import new_run_id
from elastic_fsm.server.launching import LaunchConfig, elastic_launch
from elastic_fsm.torchrun.command import LOCAL_RANK_OPTION
from elastic_fsm.torchrun.counts import determine_local_world_size, parse_min_max_nnodes
from elastic_fsm.torchrun.nodes import endpoint_of, options_of
from elastic_fsm.torchrun.run_path import run_script_path
from elastic_fsm.torchrun.translation import local_ranks, shutdown_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["config_from_args", "run"]


def config_from_args(
    args: Namespace,
) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """What to launch: the configuration, the program (or function), and its arguments.

    Raises ``ValueError`` and :class:`BadInput` for options that cannot be used.
    """
    least, most = parse_min_max_nnodes(args.nnodes)
    options = options_of(args.rdzv_conf)
    if args.rdzv_backend == "static":
        options["rank"] = args.node_rank
    if args.numa_binding is not None:
        raise ValueError("numa_binding is not offered; bind workers with numactl in the command")
    config = LaunchConfig(
        min_nodes=least,
        max_nodes=most,
        nproc_per_node=determine_local_world_size(args.nproc_per_node),
        logs_specs=make_logs_specs(
            {
                "specs": args.logs_specs,
                "log_dir": args.log_dir,
                "redirects": args.redirects,
                "tee": args.tee,
                "local_ranks_filter": local_ranks(args.local_ranks_filter),
            }
        ),
        run_id=args.rdzv_id,
        role=args.role,
        rdzv_endpoint=endpoint_of(args),
        rdzv_backend=args.rdzv_backend,
        rdzv_configs=options,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr,
        event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=shutdown_timeout(args),
    )
    return config, *_command(args)


def _command(args: Namespace) -> tuple[Callable[..., Any] | str, list[str]]:
    legacy = [] if getattr(args, "use_env", True) else [LOCAL_RANK_OPTION]
    rest = [*legacy, *args.training_script_args]
    if args.run_path:
        return run_script_path, [args.training_script, *rest]
    if args.no_python:
        if args.module:
            raise ValueError("--no-python and --module: leave one of them out")
        return args.training_script, rest
    module = ["-m"] if args.module else []
    return interpreter(), ["-u", *module, args.training_script, *rest]


def run(args: Namespace) -> None:
    """Launch what the options describe, and wait for its end.

    Raises what :func:`elastic_launch` raises.
    """
    args = Namespace(**vars(args))
    most = parse_min_max_nnodes(args.nnodes)[1]
    unplaced = not args.rdzv_endpoint and args.master_port is None
    if args.standalone or (args.rdzv_backend == "static" and unplaced and most == 1):
        args.nnodes, args.rdzv_backend, args.rdzv_id = "1", "single", new_run_id()
    config, program, program_args = config_from_args(args)
    elastic_launch(config, program)(*program_args)

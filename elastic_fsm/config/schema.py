"""The run's configuration as dataclasses: names, types, defaults, and what each value means.

They are the structured configs behind the groups in ``conf/elastic_fsm`` and are public: a
program may build one and hand it to ``elastic_fsm.run``. Every value may also be set by an
override, ``group.name=value``. The group ``machine`` is open and checked on its own, since its
keys are the user's states and transitions.

Durations are seconds, or text such as ``30s``, ``5m``, ``2h``; ``null`` means never.

The files under ``conf/elastic_fsm`` repeat the defaults, since that is where people look for
them; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

__all__ = [
    "LauncherConfig",
    "LogsConfig",
    "RendezvousConfig",
    "RestartConfig",
    "RunConfig",
    "SpecConfig",
    "StopConfig",
    "duration_fields",
    "field_types",
]


# Marks a field that takes what `elastic_fsm.durations` reads.
_DURATION = {"duration": True}


@dataclass
class SpecConfig:
    """What to run on this node; the field names are those of ``WorkerSpec``."""

    role: str = "default"
    # Number of workers on this node, or "auto": one for each visible GPU, else 1.
    local_world_size: Any = 1
    # A program or a .py file; a command line overrides it. Text, never interpolated.
    entrypoint: str | None = None
    # Treat the entrypoint as a module name, as `python -m` does.
    module: bool = False
    args: list[Any] = field(default_factory=list)
    # How often failures of workers may restart the group.
    max_restarts: int = 0
    # For every worker; values stay the text that was typed. (Any, as in `args`: a program or an
    # application's own YAML may hold numbers, and they are better written out by us than by
    # OmegaConf, whose text for true is "True".)
    env: dict[str, Any] = field(default_factory=dict)
    # On top of `env`, by local rank: {0: {NAME: value}}.
    worker_env: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Working directory of the workers; null: that of the agent.
    cwd: str | None = None
    # Local rank that gets the agent's standard input; null: every worker reads the null device.
    stdin: int | None = None
    # Override the address that the rendezvous returns.
    master_addr: str | None = None
    master_port: int | None = None
    # This node's own address, as others reach it.
    local_addr: str | None = None
    # Every worker sees LOCAL_RANK=0 and only its own device.
    virtual_local_rank: bool = False
    # Seconds between two looks for nodes that wait, where the rendezvous has to be asked.
    monitor_interval: float = 0.1
    # Where event records go: a name in `elastic_fsm.telemetry.events.SINKS`.
    event_log_handler: str = "null"


@dataclass
class LauncherConfig:
    """How workers are started."""

    # subprocess: a process for each. multiprocessing: functions of a program's own. forkserver:
    # Python files, modules and functions, forked from a process that has imported `preload`.
    name: str = "subprocess"
    # Of functions, with `multiprocessing`: spawn, fork or forkserver.
    start_method: str = "spawn"
    # Modules that the forkserver imports once for all workers. They must start no threads and not
    # initialise CUDA: neither survives a fork.
    preload: list[str] = field(default_factory=list)
    # Longest time from the first start to the last; null: no limit.
    start_timeout: Any = field(default="5m", metadata=_DURATION)


@dataclass
class RendezvousConfig:
    """How nodes agree on ranks."""

    # standalone: this node alone. static, c10d, etcd, etcd-v2: torch's handlers. Or that of a
    # plug-in (entry points of the group torchrun.handlers).
    name: str = "standalone"
    # Where the nodes meet: host:port, as the handler takes it.
    endpoint: str = ""
    # The group forms with this many nodes, and has no more than that many.
    min_nodes: int = 1
    max_nodes: int = 1
    # This node's number, with `static` only.
    node_rank: int | None = None
    # What else the handler takes: torchrun's --rdzv-conf.
    options: dict[str, Any] = field(default_factory=dict)
    # Longest wait for enough nodes.
    join_timeout: Any = field(default="10m", metadata=_DURATION)
    # Longest wait at the end for nodes that still work.
    barrier_timeout: Any = field(default="5m", metadata=_DURATION)


@dataclass
class RestartConfig:
    """How long to wait before a restart.

    It is ``delay``, times ``factor`` for each restart before it, and at most ``max_delay``.
    """

    delay: Any = field(default=0, metadata=_DURATION)
    factor: float = 1.0
    max_delay: Any = field(default="5m", metadata=_DURATION)


@dataclass
class StopConfig:
    """How workers are stopped, and what stops the agent."""

    # These end the run; the workers get the same signal.
    signals: list[str] = field(default_factory=lambda: ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
    # What the agent sends to workers that it stops for its own reasons.
    signal: str = "SIGTERM"
    # From that signal to SIGKILL. Slurm and Kubernetes kill the agent itself at 30 seconds.
    grace: Any = field(default="25s", metadata=_DURATION)
    # From SIGKILL to giving a process up as unkillable.
    kill_timeout: Any = field(default="5s", metadata=_DURATION)
    # Stop signals that reach agent and workers no further apart than this are one stop.
    window: Any = field(default=0.1, metadata=_DURATION)


@dataclass
class LogsConfig:
    """Where the workers' output goes."""

    # tee: files and console; files: files only; console: console only, nothing kept;
    # terminal: local rank 0 has the terminal itself, the others files; torchrun: see below.
    mode: str = "tee"
    # With `tee`: a single worker on a terminal gets the terminal itself.
    pass_through: bool = True
    # Before each line on the console; knows {role} {rank} {local_rank} {host} {node_rank}.
    prefix: str = "[{role}{rank}]: "
    # Global ranks shown on the console; null: all. Files are kept for all.
    console_ranks: list[int] | None = None
    # How many last lines of standard error a failure report shows.
    tail_lines: int = 20
    # The others are for mode `torchrun`. Streams that go to files, and to files and console: 0
    # (none), 1 (stdout), 2 (stderr), 3 (both), or these by local rank: "0:3,1:1".
    redirects: str = "0"
    tee: str = "0"
    # Holds <run_id>_<random>/attempt_<n>/<local_rank>/…; null: a new temporary folder.
    log_dir: str | None = None
    # Local ranks shown on the console; null: all.
    local_ranks_filter: list[int] | None = None
    # Teed lines that hold one of these words are copied to one file for each stream.
    stdout_filters: list[str] = field(default_factory=list)
    stderr_filters: list[str] = field(default_factory=list)
    # A plug-in's LogsSpecs (an entry point of the group torchrun.logs_specs); null: ours.
    specs: str | None = None


@dataclass
class RunConfig:
    """A whole run."""

    # null: unique. Using an id again keeps what is there and goes on with the attempt numbers.
    run_id: str | None = None
    # Holds <run_id>/<node>/… and the link `latest`.
    run_dir: str = "elastic_runs"
    # final: as the machine's final state says. torchrun: 1 for any failure or stop.
    exit_code: str = "final"
    # Modules with conditions, actions and delays of the user's own.
    plugins: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    spec: SpecConfig = field(default_factory=SpecConfig)
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    rendezvous: RendezvousConfig = field(default_factory=RendezvousConfig)
    restart: RestartConfig = field(default_factory=RestartConfig)
    stop: StopConfig = field(default_factory=StopConfig)
    logs: LogsConfig = field(default_factory=LogsConfig)


@cache
def field_types() -> dict[str, str]:
    """Every dotted key with its annotation as written; a group's value is ``""``."""
    found: dict[str, str] = {}
    for entry in fields(RunConfig):
        group = _group_class(entry.default_factory)
        found[entry.name] = "" if group or entry.name == "machine" else str(entry.type)
        if group:
            found |= {f"{entry.name}.{inner.name}": str(inner.type) for inner in fields(group)}
    return found


@cache
def duration_fields() -> tuple[str, ...]:
    """The dotted keys that hold durations."""
    return tuple(
        f"{entry.name}.{inner.name}"
        for entry in fields(RunConfig)
        if (group := _group_class(entry.default_factory))
        for inner in fields(group)
        if inner.metadata.get("duration")
    )


def _group_class(factory: object) -> type[Any] | None:
    return factory if isinstance(factory, type) and is_dataclass(factory) else None

"""The workers of one node: what to run, their ranks, and what is known of them.

The class names and the fields of ``WorkerSpec``, ``Worker``, ``WorkerGroup`` and ``RunResult``
are those of ``torch.distributed.elastic.agent.server``; fields that torch does not have say so.
The group is written by the agent alone, in answer to events.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.spec_checks import check_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.failures import ProcessFailure
    from elastic_fsm.world import World

__all__ = ["RunResult", "Worker", "WorkerExit", "WorkerGroup", "WorkerSpec", "WorkerState"]


class WorkerState(StrEnum):
    """The seven public states of a worker group; a machine's own states may be finer."""

    UNKNOWN = "UNKNOWN"
    """The agent lost control of its workers, or an error of its own ended the run."""
    INIT = "INIT"
    """Nothing has been started yet."""
    HEALTHY = "HEALTHY"
    """All workers run, or have ended with 0 while others still run."""
    UNHEALTHY = "UNHEALTHY"
    """A worker failed; the rest of the group is being taken down."""
    STOPPED = "STOPPED"
    """Stopped, or being stopped, by the agent."""
    SUCCEEDED = "SUCCEEDED"
    """All workers ended with 0."""
    FAILED = "FAILED"
    """Workers failed and there will be no restart."""

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Whether workers may be alive in this state, failing ones included."""
        return state in {WorkerState.HEALTHY, WorkerState.UNHEALTHY}


@dataclass
class WorkerSpec:
    """What each worker of a role runs; the same on every node but for ``local_world_size``.

    ``entrypoint`` is a program or a function, ``args`` its arguments; in those that are text
    ``${local_rank}`` is filled in. ``rdzv_handler`` (a ``RendezvousHandler``) is how the
    nodes meet, None for a single one.
    ``monitor_interval`` is the time in seconds between two looks, where the agent has to look.
    ``event_log_handler`` names the sink of the event records. ``fn`` is torch's older name of
    ``entrypoint``.

    Not torch's are ``module`` (the entrypoint is a module, as for ``python -m``), ``env``,
    ``worker_env`` (by local rank, on top of ``env``), ``cwd`` and ``stdin`` (the local rank that
    gets the agent's standard input).

    Raises ``ValueError`` that says which value cannot work.
    """

    role: str
    local_world_size: int
    rdzv_handler: Any = None
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: Sequence[Any] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    worker_env: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    module: bool = False
    cwd: str | None = None
    stdin: int | None = None

    def __post_init__(self) -> None:
        if self.fn is not None:
            warnings.warn("WorkerSpec.fn is now entrypoint", DeprecationWarning, stacklevel=3)
            self.entrypoint = self.fn
        self.entrypoint = _as_text(self.entrypoint)
        self.cwd = _as_text(self.cwd)
        check_spec(self)

    def get_entrypoint_name(self) -> str:
        """The base name of a program, the qualified name of a function."""
        if isinstance(self.entrypoint, str):
            return PurePath(self.entrypoint).name
        return getattr(self.entrypoint, "__qualname__", repr(self.entrypoint))


def _as_text(path: Any) -> Any:
    return str(path) if isinstance(path, PurePath) else path


class WorkerExit(NamedTuple):
    """How one worker ended. ``exit_code`` is -n for a death by signal n; ``time`` is wall time;
    ``pid`` is None when it could not even be started."""

    local_rank: int
    global_rank: int
    pid: int | None
    exit_code: int
    time: float
    stopped_by_agent: bool = False
    reason: str = ""

    @property
    def failed(self) -> bool:
        """Whether this exit is a cause: it was neither success nor the agent's own doing."""
        return self.exit_code != 0 and not self.stopped_by_agent

    @property
    def succeeded(self) -> bool:
        """Whether its work is done; one that was stopped may end with 0 too, after a checkpoint."""
        return self.exit_code == 0 and not self.stopped_by_agent


class Worker:
    """One worker; ranks are -1 before a rendezvous, ``id`` (its pid) is None until it started."""

    __slots__ = (
        "global_rank",
        "id",
        "local_rank",
        "role_rank",
        "role_world_size",
        "world_size",
    )

    def __init__(
        self,
        local_rank: int,
        global_rank: int = -1,
        role_rank: int = -1,
        world_size: int = -1,
        role_world_size: int = -1,
    ) -> None:
        self.id: Any = None
        self.local_rank = local_rank
        self.global_rank = global_rank
        self.role_rank = role_rank
        self.world_size = world_size
        self.role_world_size = role_world_size

    def __repr__(self) -> str:
        return f"Worker(local_rank={self.local_rank}, global_rank={self.global_rank}, id={self.id})"


class WorkerGroup:
    """The workers of this node in their current attempt.

    Beyond torch's members it keeps ``world`` (the agreement that gave the ranks), ``attempt``
    (-1 before the first), ``exits`` (by local rank, in the order in which they happened), and of
    these the ``exit_codes`` and the ranks that the agent ``stopped``.
    """

    __slots__ = (
        "attempt",
        "exit_codes",
        "exits",
        "group_rank",
        "group_world_size",
        "master_addr",
        "master_port",
        "spec",
        "state",
        "stopped",
        "store",
        "workers",
        "world",
    )

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.state = WorkerState.INIT
        self.attempt = -1
        self.begin_attempt(self.attempt)

    def begin_attempt(self, attempt: int) -> None:
        """Forget the last attempt: new workers, no ranks, nobody has ended."""
        self.attempt = attempt
        self.workers = [Worker(local_rank) for local_rank in range(self.spec.local_world_size)]
        self.exits: dict[int, WorkerExit] = {}
        self.exit_codes: dict[int, int] = {}
        self.stopped: tuple[int, ...] = ()
        self.world: World | None = None
        self.store: Any = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None

    def form(self, world: World, workers: Sequence[Worker]) -> None:
        """Take the ranks and addresses that the nodes agreed on."""
        self.world = world
        self.workers = list(workers)
        self.group_rank = world.node_rank
        self.group_world_size = len(world.nodes)
        self.master_addr = self.spec.master_addr or world.master_addr
        self.master_port = self.spec.master_port or world.master_port

    def note_started(self, pids: Mapping[int, int]) -> None:
        """The workers run: their pids by local rank."""
        for local_rank, pid in pids.items():
            self.workers[local_rank].id = pid

    def note_exit(self, ended: WorkerExit) -> None:
        """A worker ended; a second word about the same one changes nothing."""
        rank = ended.local_rank
        self.workers[rank].id = ended.pid
        if rank not in self.exits:
            self.exits[rank] = ended
            self.exit_codes[rank] = ended.exit_code
            if ended.stopped_by_agent:
                self.stopped += (rank,)

    @property
    def alive(self) -> tuple[int, ...]:
        """Local ranks that started and have not ended."""
        started = [worker.local_rank for worker in self.workers if worker.id is not None]
        return tuple([rank for rank in started if rank not in self.exits])


@dataclass
class RunResult:
    """How a run ended, by global rank: a rank is in one of the two maps or, when the agent
    stopped it, in neither. ``exit_code`` (of the agent itself) is not torch's."""

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    exit_code: int = 0

    def is_failed(self) -> bool:
        """Whether workers failed and used up the budget."""
        return self.state is WorkerState.FAILED

"""The processes of a group, for a ``LocalElasticAgent`` on the coarse machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastic_fsm.launchers.environment import worker_environment
from elastic_fsm.launchers.plan import what_to_run
from elastic_fsm.server.processes import start_processes
from elastic_fsm.server.spec_logs import line_prefix

if TYPE_CHECKING:
    from elastic_fsm.group import WorkerGroup
    from elastic_fsm.server.local import LocalElasticAgent
    from elastic_fsm.server.processes import PContext

__all__ = ["start_group"]


def start_group(owner: LocalElasticAgent, group: WorkerGroup) -> PContext:
    """Start the workers of a group whose ranks are known."""
    spec = group.spec
    runs = {w.local_rank: what_to_run(spec, w.local_rank) for w in group.workers}
    if callable(spec.entrypoint):
        entrypoint, args = spec.entrypoint, {rank: run["args"] for rank, run in runs.items()}
    else:
        entrypoint, args = runs[0]["argv"][0], {r: run["argv"][1:] for r, run in runs.items()}
    envs = {
        worker.local_rank: worker_environment(
            group,
            worker,
            restart_count=spec.max_restarts - owner._remaining_restarts,
            run_id=owner._rdzv_handler.get_run_id(),
            error_file=None,
            stop_signals=owner._setup.stop_signals,
        )
        for worker in group.workers
    }
    owner._setup_local_watchdog(envs)
    if not owner._interrupts.engine_serves:  # a machine has begun it before
        owner._begin_health_check()
    template = owner._log_line_prefix_template
    context = start_processes(
        name=spec.role,
        entrypoint=entrypoint,
        args=args,
        envs=envs,
        logs_specs=owner._logs_specs,
        log_line_prefixes={w.local_rank: line_prefix(template, group, w) for w in group.workers},
        start_method=owner._start_method,
        numa_options=spec.numa_options,
        duplicate_stdout_filters=spec.duplicate_stdout_filters,
        duplicate_stderr_filters=spec.duplicate_stderr_filters,
        cwd=spec.cwd,
    )
    context.grace = owner._shutdown_timeout
    context.before_stop = owner._stop_watchdog  # it may signal pids, from another thread
    return context

"""The engine under a ``LocalElasticAgent``: the machines, launchers and sources of
``elastic-fsm run``. Nothing polls, and nothing blocks."""

from __future__ import annotations

import logging
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from elastic_fsm.agent import Agent
from elastic_fsm.launchers.choice import make_starter
from elastic_fsm.launchers.environment import common_environment
from elastic_fsm.launchers.functions import check_function
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.launchers.plan import Planner
from elastic_fsm.rendezvous.over_handler import HandlerRendezvous
from elastic_fsm.rendezvous.standalone import Standalone
from elastic_fsm.rundir import node_name
from elastic_fsm.server.probes import observers_of, sources_of
from elastic_fsm.server.processes import refuse_numa_options
from elastic_fsm.server.records import WorkerRecords
from elastic_fsm.server.setup import log_change, result_or_cause
from elastic_fsm.server.spec_logs import SpecLogs, line_prefix
from elastic_fsm.sources.commands import Commands
from elastic_fsm.sources.exits import Exits
from elastic_fsm.world import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.group import RunResult
    from elastic_fsm.launchers.base import Launcher
    from elastic_fsm.server.interrupts import Interrupts
    from elastic_fsm.server.local import LocalElasticAgent
    from elastic_fsm.server.setup import Running, Setup

__all__ = ["run_full"]

log = logging.getLogger("elastic_fsm")


def run_full(owner: LocalElasticAgent, setup: Setup, interrupts: Interrupts) -> RunResult:
    """Run the owner's group through its machine.

    Raises ``SignalException`` after a stop, and what an action raised that nothing recovered.
    """
    refuse_numa_options(owner._worker_group.spec.numa_options)
    with setup.running(owner._rdzv_handler.get_run_id(), interrupts) as running:
        others = _others(owner, running)
        engine = _engine(owner, setup, running, others)
        engine.restarts_used = engine.group.spec.max_restarts - owner._remaining_restarts
        try:
            return result_or_cause(engine, engine.run())
        finally:
            owner._rendezvous_error = others.error if others else None
            owner._remaining_restarts = engine.group.spec.max_restarts - engine.restarts_used


def _engine(
    owner: LocalElasticAgent, setup: Setup, running: Running, others: HandlerRendezvous | None
) -> Agent:
    group, loop = owner._worker_group, running.loop
    spec = group.spec
    exits = Exits(loop)
    commands = Commands(loop, exits, log.warning)
    launcher = _launcher(owner, setup, running, exits, commands)
    looks_after = sources_of(owner, lambda: agent, loop, asks_loop=True)
    owner._worker_watchdog = owner._timers
    planner = Planner(
        run_id=owner._rdzv_handler.get_run_id(),
        node_dir=None,
        stop_signals=tuple(setup.stop_signals),
        timer_file=owner._timers.path if owner._timers else "",
    )
    logs = SpecLogs(
        planner, owner._logs_specs, partial(line_prefix, owner._log_line_prefix_template)
    )
    agent = Agent(
        group=group,
        node=Node(
            running.folder.node.name,
            spec.role,
            spec.local_world_size,
            spec.local_addr or ("127.0.0.1" if owner._is_alone else node_name()),
        ),
        machine=setup.machine(),
        loop=loop,
        launcher=launcher,
        rendezvous=others or Standalone(loop),
        outputs=logs,
        journal=running.journal,
        planner=logs,
        settings=setup.values,
        commands=commands,
        sources=[exits, *looks_after],
        observers=[
            log_change,
            WorkerRecords(owner),
            partial(_keep_members, owner, others),
            *observers_of(owner),
        ],
        first_attempt=running.folder.first_attempt,
    )
    return agent


def _keep_members(
    owner: LocalElasticAgent, others: HandlerRendezvous | None, record: Mapping[str, Any]
) -> None:
    """An observer: the members that callbacks read, such as a health check of the user's."""
    if record.get("outcome") == "step" and record["entered"]:
        owner._store = owner._worker_group.store = others.store if others else None
        owner._in_exit_barrier = "enter_exit_barrier" in record["actions"]


def _launcher(
    owner: LocalElasticAgent, setup: Setup, running: Running, exits: Exits, commands: Commands
) -> Launcher:
    if owner._launcher is not None:
        return owner._launcher(running.loop)
    spec = owner._worker_group.spec
    chosen = setup.values["launcher"]
    is_function = callable(spec.entrypoint) and chosen["name"] == "subprocess"
    if callable(spec.entrypoint):
        method = owner._start_method if chosen["name"] != "forkserver" else "forkserver"
        check_function(spec.entrypoint, spec.args, start_method=method)
    launcher = SubprocessLauncher(
        running.loop,
        exits,
        kill_timeout=setup.values["stop"]["kill_timeout"],
        bystanders=commands.pids,
        starter=make_starter(
            "multiprocessing" if is_function else chosen["name"],
            loop=running.loop,
            exits=exits,
            start_method=owner._start_method,
            preload=chosen["preload"],
            env=common_environment(spec),
            say=log.warning,
        ),
    )
    commands.env.update(launcher.marking)
    running.signals.call(signal.SIGCHLD, launcher.child_ended)
    return launcher


def _others(owner: LocalElasticAgent, running: Running) -> HandlerRendezvous | None:
    """What this node has in common with the others; None when it is alone."""
    spec = owner._worker_group.spec
    if owner._is_alone:
        return None
    return HandlerRendezvous(running.loop, spec.rdzv_handler, interval=spec.monitor_interval)

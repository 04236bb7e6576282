"""From a resolved configuration to a finished run: everything is put together here."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm import __version__
from elastic_fsm.agent import Agent
from elastic_fsm.clock import SystemClock
from elastic_fsm.command import check_command
from elastic_fsm.config.paths import shown
from elastic_fsm.devices import workers_for_auto
from elastic_fsm.group import RunResult, WorkerGroup, WorkerSpec, WorkerState
from elastic_fsm.journal import Journal
from elastic_fsm.journal_header import journal_header
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.launchers.plan import Planner
from elastic_fsm.logs.console import Console
from elastic_fsm.loop import Loop
from elastic_fsm.machine import Machine, load_machine
from elastic_fsm.narration import because, state_change
from elastic_fsm.outputs import WorkerOutputs
from elastic_fsm.plugins import rules_for
from elastic_fsm.problems import BadInput, Problem, did_you_mean
from elastic_fsm.ranks import assign_ranks
from elastic_fsm.rendezvous.standalone import Standalone
from elastic_fsm.report import Report, make_report, render
from elastic_fsm.rundir import (
    RunDir,
    cannot_be_written,
    new_run_id,
    node_name,
    open_run_dir,
)
from elastic_fsm.sources.commands import Commands
from elastic_fsm.sources.exits import Exits
from elastic_fsm.sources.signals import Signals
from elastic_fsm.world import Node, World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elastic_fsm.config import Composed
    from elastic_fsm.launchers.base import Launcher, LaunchPlan
    from elastic_fsm.scenario.script import Script
    from elastic_fsm.sources.base import Source

__all__ = ["Prepared", "execute", "prepare", "preview", "run"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that has passed every check; nothing has been started or written."""

    composed: Composed
    values: Mapping[str, Any]
    spec: WorkerSpec
    machine: Machine
    run_id: str
    host: str


def run(config: Any) -> RunResult:
    """Run a configuration: a DictConfig (``cfg.agent``), a ``RunConfig`` or a mapping.

    Must be called in the main thread for signals to be taken up. Raises :class:`BadInput`
    before anything starts when the configuration cannot be run.
    """
    from elastic_fsm.config import resolve

    return execute(prepare(resolve(config)), sole_owner=False)


def prepare(
    composed: Composed,
    command: Sequence[str] = (),
    *,
    module: bool = False,
    plugin_folder: Path | None = None,
) -> Prepared:
    """Check everything that can be checked without starting anything.

    ``command`` comes from a command line and replaces entrypoint and arguments, word for word.
    Plug-ins are looked for in ``plugin_folder`` and the current one, too. Raises
    :class:`BadInput` with all problems found.
    """
    values = composed.values
    problems: list[Problem] = []
    machine: Machine | None = None
    try:
        registry = rules_for(values["plugins"], [plugin_folder] if plugin_folder else [])
        machine = load_machine(values["machine"], registry, values)
    except BadInput as error:
        problems += map(composed.locate, error.problems)
    spec_values = _spec_values(values["spec"], command, module=module)
    typed = bool(command) or not spec_values["entrypoint"]
    for problem in check_command(spec_values):
        if typed and problem.path != "spec.cwd":
            problems.append(replace(problem, where="command line", path=""))
        else:
            problems.append(composed.locate(problem))
    problems += map(composed.locate, _check_engines(values))
    if problems or machine is None:
        raise BadInput(problems)
    prepared = Prepared(
        composed=composed,
        values=values,
        spec=WorkerSpec(**spec_values),
        machine=machine,
        run_id=values["run_id"] or new_run_id(),
        host=node_name(),
    )
    try:
        preview(prepared)
    except ValueError as error:  # fewer devices than workers
        raise BadInput([composed.locate(Problem(str(error), path="spec"))]) from error
    return prepared


def _spec_values(
    spec: Mapping[str, Any], command: Sequence[str], *, module: bool
) -> dict[str, Any]:
    values = dict(spec)
    if command:
        values |= {"entrypoint": command[0], "args": list(command[1:]), "module": module}
    if values["local_world_size"] == "auto":
        values["local_world_size"] = workers_for_auto()
    return values


_LAUNCHERS = ("subprocess",)
_RENDEZVOUS = ("standalone",)


def _check_engines(values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for group, known in (("launcher", _LAUNCHERS), ("rendezvous", _RENDEZVOUS)):
        name = values[group]["name"]
        if name not in known:
            fix = did_you_mean(name, known)
            problems.append(Problem(f"unknown {group} {name!r}", path=f"{group}.name", fix=fix))
    return problems


def preview(prepared: Prepared) -> LaunchPlan:
    """The plan of the first attempt, with a made-up port: what ``run`` would start."""
    group = WorkerGroup(prepared.spec)
    group.begin_attempt(0)
    world = World(0, (_node(prepared),), 0, _address(prepared.spec), 0)
    group.form(world, assign_ranks(world))
    base = Path(prepared.values["run_dir"]).absolute()
    planner = _planner(prepared, base / prepared.run_id / prepared.host)
    return planner.plan(group, restart_count=0)


def execute(prepared: Prepared, *, sole_owner: bool, injected: Script | None = None) -> RunResult:
    """Run it, and report. ``sole_owner``: this process has no children but the agent's.

    The failures of the scenario ``injected`` are played against the workers.
    Raises :class:`BadInput` when the run directory cannot be used.
    """
    values = prepared.values
    folder = open_run_dir(Path(values["run_dir"]), prepared.run_id, prepared.host)
    try:
        folder.config.write_text(prepared.composed.to_yaml())
    except OSError as error:
        raise cannot_be_written(error, folder.config) from error
    console = Console()
    console.start()
    session = _Session(prepared, folder, console, injected)
    try:
        return session.run(sole_owner=sole_owner)
    finally:
        console.close()
        folder.release()


class _Session:
    """One run, from the banner to the final report."""

    def __init__(
        self, prepared: Prepared, folder: RunDir, console: Console, injected: Script | None
    ) -> None:
        self.prepared = prepared
        self.injected = injected
        self.folder = folder
        self.console = console
        self.why = ""
        self.planner = _planner(prepared, folder.node)
        self.outputs = WorkerOutputs(
            console=console,
            planner=self.planner,
            logs=prepared.values["logs"],
            spec=prepared.spec,
            host=prepared.host,
        )

    def run(self, *, sole_owner: bool) -> RunResult:
        self.console.say(_banner(self.prepared, self.folder))
        loop = Loop(SystemClock())
        signals = self._signals(loop)
        signals.start()
        try:
            agent = self._agent(loop, sole_owner=sole_owner)
            if self.planner.log_mode != "terminal":  # the terminal belongs to a worker then
                self.console.status(lambda: _status(agent))
            result = agent.run()
            if self.prepared.values["exit_code"] == "torchrun":
                result.exit_code = int(result.state is not WorkerState.SUCCEEDED)
            report = self._write_report(agent, result)
        finally:
            signals.close()
            loop.close()
        self._show_report(agent, report, _hint(agent, result))
        return result

    def _signals(self, loop: Loop) -> Signals:
        """Not one of the agent's sources: they are kept until the report has been written."""
        prepared = self.prepared
        names = {*prepared.values["stop"]["signals"], *prepared.machine.rules.signals}
        signals = Signals(loop, names)
        if not signals.available:
            self.console.say("not in the main thread: signals to this process are not taken up")
        return signals

    def _agent(self, loop: Loop, *, sole_owner: bool) -> Agent:
        prepared, values = self.prepared, self.prepared.values
        exits = Exits(loop)
        journal = Journal(self.folder.journal, self.console.say)
        journal.header(_header(prepared))
        commands = Commands(loop, exits)
        launcher = SubprocessLauncher(
            loop,
            exits,
            kill_timeout=values["stop"]["kill_timeout"],
            sole_owner=sole_owner,
            bystanders=commands.pids,
        )
        commands.env.update(launcher.marking)
        return Agent(
            spec=prepared.spec,
            node=_node(prepared),
            machine=prepared.machine,
            loop=loop,
            launcher=launcher,
            rendezvous=Standalone(loop),
            outputs=self.outputs,
            journal=journal,
            planner=self.planner,
            settings=values,
            commands=commands,
            sources=[exits, *self._injections(loop, launcher)],
            observers=[self._observe],
            first_attempt=self.folder.first_attempt,
        )

    def _injections(self, loop: Loop, launcher: Launcher) -> list[Source]:
        if self.injected is None:
            return []
        from elastic_fsm.scenario.injecting import Injection

        workers = self.prepared.spec.local_world_size
        say = self.console.say
        return [Injection(loop, launcher, self.injected, workers=workers, say=say)]

    def _observe(self, record: Mapping[str, Any]) -> None:
        line = state_change(record)
        if line is not None:
            self.console.say(line)
        if line is not None and "note" not in record:
            self.why = f"[{record['transition']}] {because(record)}"

    def _write_report(self, agent: Agent, result: RunResult) -> Report:
        report = make_report(
            agent,
            result,
            run_id=self.prepared.run_id,
            host=self.prepared.host,
            why=self.why,
            exit_code=result.exit_code,
        )
        with suppress(OSError):  # the text below says the same
            self.folder.report.write_text(json.dumps(report.to_dict(), indent=1))
        return report

    def _show_report(self, agent: Agent, report: Report, hint: str) -> None:
        self.console.status(None)
        self.console.drain()
        self.outputs.discard_passing()
        places = [("report", shown(self.folder.report)), ("journal", shown(self.folder.journal))]
        if agent.history:
            last = self.folder.node / f"attempt_{agent.history[-1].number}"
            places.append(("logs", shown(last)))
        self.console.say(render(report, places=places, hint=hint))


def _planner(prepared: Prepared, node_dir: Path) -> Planner:
    return Planner(
        run_id=prepared.run_id,
        node_dir=node_dir,
        log_mode=_log_mode(prepared),
        stop_signals=tuple(prepared.values["stop"]["signals"]),
    )


def _log_mode(prepared: Prepared) -> str:
    """A single worker on a terminal gets the terminal itself, for bars, colours and debuggers."""
    logs = prepared.values["logs"]
    alone = prepared.spec.local_world_size == 1 and os.isatty(0) and os.isatty(1)
    passes = logs["mode"] == "tee" and logs["pass_through"] and alone
    return "terminal" if passes else str(logs["mode"])


def _node(prepared: Prepared) -> Node:
    spec = prepared.spec
    name = f"{prepared.host}:{os.getpid()}"
    return Node(name, spec.role, spec.local_world_size, _address(spec))


def _address(spec: WorkerSpec) -> str:
    """Workers of a single node meet on the loopback interface, which needs no name service."""
    return spec.local_addr or "127.0.0.1"


def _header(prepared: Prepared) -> dict[str, Any]:
    return journal_header(
        prepared.composed.masked(),
        run_id=prepared.run_id,
        host=prepared.host,
        plugins=prepared.values["plugins"],
    )


def _banner(prepared: Prepared, folder: RunDir) -> str:
    spec, values = prepared.spec, prepared.values
    count = spec.local_world_size
    grace = values["stop"]["grace"]
    return (
        f"elastic_fsm {__version__}, run {prepared.run_id}: "
        f"{count} per node × 1 node = {count} worker{'s' * (count != 1)}\n"
        f"policy: {spec.max_restarts} restart{'s' * (spec.max_restarts != 1)}; "
        f"stop by {', '.join(values['stop']['signals'])}, "
        f"{'no limit' if grace is None else f'{grace:g} s'} of grace; logs in {shown(folder.node)}"
    )


def _status(agent: Agent) -> str:
    group = agent.group
    left = agent.group.spec.max_restarts - agent.restarts_used
    started = agent.history[0].started if agent.history else agent.loop.clock.wall()
    seconds = int(agent.loop.clock.wall() - started)
    return (
        f"{agent.machine.state.name} · {len(group.alive)}/{group.spec.local_world_size} workers · "
        f"{left} restarts left · {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    )


def _hint(agent: Agent, result: RunResult) -> str:
    if (
        result.state is not WorkerState.FAILED
        or agent.restarts_used < agent.group.spec.max_restarts
    ):
        return ""
    more = max(1, 2 * agent.group.spec.max_restarts)
    return f"to restart the group after such a failure: spec.max_restarts={more}"

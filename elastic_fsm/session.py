"""One run: everything is put together here, from the banner to the final report."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm import __version__
from elastic_fsm.agent import Agent
from elastic_fsm.clock import SystemClock
from elastic_fsm.config.paths import shown
from elastic_fsm.group import WorkerState
from elastic_fsm.journal import Journal
from elastic_fsm.journal_header import journal_header
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.loop import Loop
from elastic_fsm.narration import because, state_change
from elastic_fsm.outputs import WorkerOutputs
from elastic_fsm.rendezvous.standalone import Standalone
from elastic_fsm.report import make_report, render
from elastic_fsm.sources.commands import Commands
from elastic_fsm.sources.exits import Exits
from elastic_fsm.sources.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.group import RunResult
    from elastic_fsm.launchers.base import Launcher
    from elastic_fsm.logs.console import Console
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.report import Report
    from elastic_fsm.rundir import RunDir
    from elastic_fsm.scenario.script import Script
    from elastic_fsm.sources.base import Source

__all__ = ["Session"]

_PATIENCE = 5.0


class Session:
    """One run, from the banner to the final report."""

    def __init__(
        self, prepared: Prepared, folder: RunDir, console: Console, injected: Script | None
    ) -> None:
        self.prepared = prepared
        self.injected = injected
        self.folder = folder
        self.console = console
        self.why = ""
        self.planner = prepared.planner(folder.node)
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
        signals = self._signals(loop, children=sole_owner)
        signals.start()
        try:
            agent = self._agent(loop, signals, sole_owner=sole_owner)
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

    def _signals(self, loop: Loop, *, children: bool) -> Signals:
        """Not one of the agent's sources: they are kept until the report has been written."""
        prepared = self.prepared
        names = {*prepared.values["stop"]["signals"], *prepared.machine.rules.signals}
        signals = Signals(loop, names, children=children)
        if not signals.available:
            self.console.say("not in the main thread: signals to this process are not taken up")
        return signals

    def _agent(self, loop: Loop, signals: Signals, *, sole_owner: bool) -> Agent:
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
        signals.on_child = launcher.child_ended
        return Agent(
            spec=prepared.spec,
            node=prepared.node,
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
        text = json.dumps(report.to_dict(), indent=1)
        unfinished = self.folder.report.with_suffix(".part")
        try:  # whole or not at all
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self.folder.report)
        except OSError as error:
            self.console.say(f"the report cannot be written: {error}")
            with suppress(OSError):
                unfinished.unlink()
        return report

    def _show_report(self, agent: Agent, report: Report, hint: str) -> None:
        self.console.status(None)
        # A console that takes nothing must not keep an agent that was told to stop.
        self.console.drain(_PATIENCE if agent.ending_signal else None)
        self.outputs.discard_passing()
        places = [("report", shown(self.folder.report)), ("journal", shown(self.folder.journal))]
        if agent.history:
            last = self.folder.node / f"attempt_{agent.history[-1].number}"
            places.append(("logs", shown(last)))
        self.console.say(render(report, places=places, hint=hint))


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

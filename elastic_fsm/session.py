"""One run: everything is put together here, from the banner to the final report."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from elastic_fsm.agent import Agent
from elastic_fsm.banner import banner
from elastic_fsm.config.masking import masked_texts
from elastic_fsm.config.paths import shown
from elastic_fsm.group import WorkerGroup, WorkerState
from elastic_fsm.history import FailedCommands
from elastic_fsm.journal import Journal
from elastic_fsm.journal_header import journal_header
from elastic_fsm.launchers.procfs import sees_processes
from elastic_fsm.logs.choice import make_logs_specs
from elastic_fsm.narration import because, state_change
from elastic_fsm.outputs import WorkerOutputs, console_prefix
from elastic_fsm.rendezvous.choice import is_standalone
from elastic_fsm.rendezvous.ports import free_port
from elastic_fsm.rendezvous.standalone import Standalone
from elastic_fsm.report import advice, make_report, render
from elastic_fsm.suspension import suspend
from elastic_fsm.watchdogs import health_checks, sleep_limit, timer_file, watchdogs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from elastic_fsm.group import RunResult, Worker
    from elastic_fsm.launchers.base import Launcher
    from elastic_fsm.logs.console import Console
    from elastic_fsm.loop import Loop
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.rendezvous.base import Rendezvous
    from elastic_fsm.rendezvous.later import LaterHandler
    from elastic_fsm.rundir import RunDir
    from elastic_fsm.runtime import Runtime
    from elastic_fsm.scenario.script import Script
    from elastic_fsm.server.spec_logs import SpecLogs
    from elastic_fsm.sources.base import Source
    from elastic_fsm.telemetry.command_line import RunRecords

__all__ = ["PATIENCE", "Session"]

PATIENCE = 2.0
"""Seconds that a console gets to take the last lines where it must not hold up the end: twice,
for what came before the report and for the report; with the usual grace that is less than the
30 s after which cluster managers kill the agent."""

# Ways of logging in which a worker may write to the terminal itself, and no status line fits.
_PASSING = ("terminal", "torchrun")
_NO_PROC = (
    "/proc is not mounted: of what workers start, only their own process groups are stopped, "
    "and nothing is when the agent itself is killed"
)


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
        self.status: Callable[[], str] | None = None
        self.records: list[RunRecords] = []
        self.failed_commands = FailedCommands()
        self.planner = prepared.planner(folder.node)._replace(timer_file=timer_file())
        self.outputs = self._outputs()
        self.handler = self._handler()

    def _handler(self) -> LaterHandler | None:
        """How the nodes meet; None where this one is alone."""
        if is_standalone(self.prepared.values["rendezvous"]):
            return None
        from elastic_fsm.rendezvous.later import make_handler

        return make_handler(self.prepared.values, self.prepared.run_id)

    def _outputs(self) -> WorkerOutputs | SpecLogs:
        prepared, logs = self.prepared, self.prepared.values["logs"]
        if logs["mode"] != "torchrun":
            return WorkerOutputs(
                console=self.console,
                planner=self.planner,
                logs=logs,
                spec=prepared.spec,
                host=prepared.host,
            )
        from elastic_fsm.server.spec_logs import SpecLogs

        return SpecLogs(
            self.planner,
            make_logs_specs(logs),
            self._prefix,
            console=self.console,
            tail_lines=logs["tail_lines"],
        )

    def _prefix(self, group: WorkerGroup, worker: Worker) -> str:
        template, host = self.prepared.values["logs"]["prefix"], self.prepared.host
        return console_prefix(
            template, worker, role=group.spec.role, host=host, node_rank=group.group_rank
        )

    def run(self, runtime: Runtime) -> tuple[RunResult, Callable[[], None]]:
        """From the banner to the report in its file.

        Returns also what shows the report; a console that takes nothing may hold that up.
        """
        self.console.say(banner(self.prepared, self.folder))
        if not runtime.signals.available:
            self.console.say("not in the main thread: signals to this process are not taken up")
        if not sees_processes():
            self.console.say(_NO_PROC)
        agent = self._agent(runtime)
        runtime.signals.call(signal.SIGTSTP, partial(suspend, agent, self.console))
        if self.planner.log_mode not in _PASSING:
            self.status = partial(_status, agent)
            self.console.status(self.status)
        result = agent.run()
        for records in self.records:
            records.end(result, agent.error or self.why)
        if self.handler is not None and result.state is not WorkerState.STOPPED:
            self.handler.shut_down()  # a node that is stopped lets the others go on
        if self.prepared.values["exit_code"] == "torchrun":
            result.exit_code = int(result.state is not WorkerState.SUCCEEDED)
        report = self._write_report(agent, result)
        return result, partial(self._show_report, agent, report, advice(agent, result))

    def _agent(self, runtime: Runtime) -> Agent:
        prepared, loop, launcher = self.prepared, runtime.loop, runtime.launcher
        texts = masked_texts(prepared.machine.rules.actions, prepared.composed.secrets)
        journal = Journal(self.folder.journal, self.console.say, masked_texts=texts)
        journal.header(_header(prepared))
        group = WorkerGroup(prepared.spec)
        agent = Agent(
            group=group,
            node=prepared.node,
            machine=prepared.machine,
            loop=loop,
            launcher=launcher,
            rendezvous=self._rendezvous(loop),
            outputs=self.outputs,
            journal=journal,
            planner=self.planner if isinstance(self.outputs, WorkerOutputs) else self.outputs,
            settings=prepared.values,
            commands=runtime.commands,
            sources=[
                runtime.exits,
                *health_checks(lambda: agent, loop),
                *self._watchdogs(loop, group),
                *self._injections(loop, launcher),
            ],
            observers=[self._observe, self._record, self.failed_commands],
            first_attempt=self.folder.first_attempt,
        )
        self.records = self._event_records(agent)
        return agent

    def _event_records(self, agent: Agent) -> list[RunRecords]:
        if self.prepared.spec.event_log_handler == "null":
            return []  # and nothing is loaded for it
        from elastic_fsm.telemetry.command_line import RunRecords

        backend = self.prepared.values["rendezvous"]["name"]
        return [RunRecords(agent, self.prepared.run_id, backend)]

    def _record(self, record: Mapping[str, Any]) -> None:
        for records in self.records:
            records(record)

    def _rendezvous(self, loop: Loop) -> Rendezvous:
        if self.handler is None:
            address, port = self.prepared.spec.master_addr, self.prepared.spec.master_port
            return Standalone(loop, address=address, find_port=lambda own: port or free_port(own))
        from elastic_fsm.rendezvous.over_handler import HandlerRendezvous

        interval = self.prepared.spec.monitor_interval
        return HandlerRendezvous(loop, self.handler, interval=interval, tell=self.console.say)

    def _watchdogs(self, loop: Loop, group: WorkerGroup) -> list[Source]:
        file, limit = self.planner.timer_file, sleep_limit()
        return watchdogs(loop, group, self.console.say, file=file, limit=limit)

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
        self.console.status(self.status)  # now, and not when its next second comes
        if line is not None and record.get("entered"):
            self.why = f"[{record['transition']}] {because(record)}"

    def _write_report(self, agent: Agent, result: RunResult) -> dict[str, Any]:
        report = make_report(
            agent,
            result,
            run_id=self.prepared.run_id,
            host=self.prepared.host,
            why=self.why,
            failed_commands=self.failed_commands.to_list(),
        )
        text = json.dumps(report, indent=1)
        unfinished = self.folder.report.with_suffix(".part")
        try:  # whole or not at all
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(self.folder.report)
        except OSError as error:
            self.console.say(f"the report cannot be written: {error}")
            with suppress(OSError):
                unfinished.unlink()
        return report

    def _show_report(self, agent: Agent, report: Mapping[str, Any], hint: str) -> None:
        self.console.status(None)
        # A console that takes nothing must not keep an agent that was told to stop.
        self.console.drain(PATIENCE if agent.last_signal else None)
        if isinstance(self.outputs, WorkerOutputs):
            self.outputs.discard_passing()
        files = {"report": self.folder.report, "journal": self.folder.journal}
        if agent.history and (last := self.outputs.attempt_dir(agent.history[-1].number)):
            files["logs"] = last
        # On a disk that is full not all of them are there.
        places = [(label, shown(path)) for label, path in files.items() if path.exists()]
        self.console.say(render(report, places=places, hint=hint))


def _header(prepared: Prepared) -> dict[str, Any]:
    return journal_header(
        prepared.composed.masked(),
        run_id=prepared.run_id,
        host=prepared.host,
        plugins=prepared.values["plugins"],
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

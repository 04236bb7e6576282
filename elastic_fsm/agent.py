"""The agent: takes an event, steps the machine, writes the journal, runs the actions.

This is all of the loop, and the only place where these four meet. What an event *means* is in
the declaration; how something is done is behind the ports (launcher, rendezvous, outputs). The
agent keeps the group, the counters and the timers of the current state.
"""

from __future__ import annotations

import functools
import signal
import traceback
from typing import TYPE_CHECKING, Any, Protocol

from elastic_fsm.events import Event
from elastic_fsm.facts import Facts
from elastic_fsm.failures import ProcessFailure, shell_code
from elastic_fsm.group import RunResult, WorkerExit, WorkerGroup, WorkerState
from elastic_fsm.history import Attempt
from elastic_fsm.journal import describe_step
from elastic_fsm.machine import ConditionFailed, Ignored
from elastic_fsm.ranks import assign_ranks
from elastic_fsm.world import Node, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.group import WorkerSpec
    from elastic_fsm.journal import Journal
    from elastic_fsm.launchers.base import Launcher, LaunchPlan
    from elastic_fsm.launchers.plan import Planner
    from elastic_fsm.loop import Loop, Timer
    from elastic_fsm.machine import Machine, Step
    from elastic_fsm.rendezvous.base import Rendezvous
    from elastic_fsm.sources.base import CommandRunner, Source

__all__ = ["Agent", "Outputs"]

_EXIT_LOST_CONTROL = 70
"""EX_SOFTWARE of sysexits: the agent itself went wrong."""

_MOST_FAILURES_IN_A_ROW = 3
"""An action fails, stopping the workers fails too, and so does the reaction to that: enough."""


class Outputs(Protocol):
    """What becomes of the workers' output."""

    def attach(self, plan: LaunchPlan) -> None:
        """Workers are about to be started: make their folders, follow their files."""
        ...

    def detach(self) -> None:
        """No worker of the attempt is left: show what is unfinished."""
        ...

    def last_lines(self, attempt: int, local_rank: int) -> list[str]:
        """The last lines of a worker's standard error."""
        ...

    def error_file(self, attempt: int, local_rank: int) -> str:
        """Path of a worker's error file; empty when it has none."""
        ...


class Agent:
    """Runs one group of workers through a machine.

    ``settings`` are the run's configuration values (group by group); ``first_attempt`` is the
    number of the first start; ``observers`` get every journal record, after it was written.
    """

    def __init__(
        self,
        *,
        spec: WorkerSpec,
        node: Node,
        machine: Machine,
        loop: Loop,
        launcher: Launcher,
        rendezvous: Rendezvous,
        outputs: Outputs,
        journal: Journal,
        planner: Planner,
        settings: Mapping[str, Any],
        commands: CommandRunner,
        sources: Sequence[Source] = (),
        observers: Sequence[Callable[[Mapping[str, Any]], None]] = (),
        first_attempt: int = 0,
    ) -> None:
        self.node = node
        self.machine = machine
        self.loop = loop
        self.launcher = launcher
        self.rendezvous = rendezvous
        self.outputs = outputs
        self.journal = journal
        self.planner = planner
        self.settings = settings
        self.commands = commands
        self.group = WorkerGroup(spec)
        self.group.begin_attempt(first_attempt - 1)
        self.history: list[Attempt] = []
        self.restarts_used = 0
        self.membership_restarts = 0
        self.ending_signal = ""
        self.error = ""
        self._sources = sources
        self._observers = observers
        self._visit = 0
        self._entered_at = loop.clock.now()
        self._timers: list[Timer] = []
        self._lost_control = False
        self._failures_in_a_row = 0
        self._notes: dict[str, Callable[[Event], None]] = {
            "rendezvous_completed": self._note_world,
            "workers_started": self._note_started,
            "worker_exited": self._note_exit,
            "workers_stopped": self._note_stopped,
            "workers_stuck": self._note_stopped,
        }

    # -- the loop ------------------------------------------------------------------------------

    def run(self) -> RunResult:
        """Run until the machine is in a final state; nothing of it is left alive afterwards."""
        try:
            for source in self._sources:
                source.start()
            self._show(self.machine.state.worker_state)
            self._arm_timers(self._facts())
            self.loop.post(Event("run_requested"))
            while not self.machine.state.final and not self._lost_control:
                self.handle(self.loop.next_event())
        except Exception as error:  # a source or a port, outside of any action
            self._lose_control(f"{type(error).__name__}: {error}")
            note = {"note": "the agent's own code failed", "traceback": traceback.format_exc()}
            self._tell(self._write(note))
        finally:
            self.close()
        return self._result()

    def handle(self, event: Event) -> None:
        """One event, from the inbox to the end of its actions.

        The observers are told last: they may be slow, and the actions are urgent.
        """
        if self._is_stale(event):
            self._tell(self._record(event, self._facts(), "stale"))
            return
        if event.name != "action_failed":
            self._failures_in_a_row = 0
        self._note(event)
        facts = self._facts()
        try:
            outcome = self.machine.step(event, facts)
        except ConditionFailed as error:
            self._tell(self._record(event, facts, error))
            self._action_failed(error.condition, str(error))
            return
        if isinstance(outcome, Ignored):
            self._tell(self._record(event, facts, outcome))
            return
        if outcome.entered:
            self._enter(event, facts)
        record = self._record(event, facts, outcome)
        self._run_actions(outcome, event)
        self._tell(record)

    def close(self) -> None:
        """Kill and reap what is left, and give everything back; never raises for what is gone."""
        self._cancel_timers()
        stuck = self.launcher.close()
        if stuck:
            self._lose_control(f"these processes survived SIGKILL: {stuck}")
        self.outputs.detach()
        self.rendezvous.close()
        self.commands.close()
        for source in self._sources:
            source.close()
        self.journal.close()

    def _is_stale(self, event: Event) -> bool:
        old_attempt = event.attempt is not None and event.attempt != self.group.attempt
        old_visit = event.visit is not None and event.visit != self._visit
        return old_attempt or old_visit

    def _enter(self, event: Event, facts: Facts) -> None:
        """The machine has entered a state: show it, and arm its timers."""
        self._visit += 1
        self._entered_at = facts.now
        if event.name == "signal_received":
            self.ending_signal = event.data["signal"]
        self._show(self.machine.state.worker_state)
        self._arm_timers(facts)

    def _show(self, state: WorkerState | None) -> None:
        if state is not None:
            self.group.state = state

    def _run_actions(self, step: Step, event: Event) -> None:
        for use in step.actions:
            action = self.machine.rules.actions[use]
            try:
                action.function(self, event)
            except (Exception, SystemExit) as error:
                text = f"{type(error).__name__}: {error}"
                if not action.optional:
                    self._action_failed(action.name, text)
                    return
                self._tell(self._write({"note": f"the action {action.name} failed: {text}"}))

    def _action_failed(self, name: str, error: str) -> None:
        """Let the declaration say what happens; unless it has ended, or fails over this itself."""
        self.error = self.error or f"{name}: {error}"
        self._failures_in_a_row += 1
        if self.machine.state.final or self._failures_in_a_row == _MOST_FAILURES_IN_A_ROW:
            self._lost_control = True
        else:
            self.loop.post_first(Event("action_failed", {"name": name, "error": error}))

    def _lose_control(self, error: str) -> None:
        """The declaration cannot help any more: the run ends, as UNKNOWN."""
        self.error = self.error or error
        self._lost_control = True

    # -- timers --------------------------------------------------------------------------------

    def _arm_timers(self, facts: Facts) -> None:
        self._cancel_timers()
        for name, delay in self.machine.rules.timeouts[self.machine.state.name].items():
            try:
                seconds = delay(facts)
            except (Exception, SystemExit) as error:
                self._action_failed(name, f"{type(error).__name__}: {error}")
                continue
            if seconds is not None:
                event = Event(name, {"after": seconds}, visit=self._visit)
                post = functools.partial(self.loop.post, event)
                self._timers.append(self.loop.call_later(seconds, post))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    # -- what is known -------------------------------------------------------------------------

    def _note(self, event: Event) -> None:
        """Update the group from an event, before anybody decides anything."""
        note = self._notes.get(event.name)
        if note is not None:
            note(event)

    def _note_world(self, event: Event) -> None:
        world = World.from_dict(event.data["world"])
        self.group.form(world, assign_ranks(world))

    def _note_started(self, event: Event) -> None:
        self.group.note_started(dict(enumerate(event.data["pids"])))

    def _note_exit(self, event: Event) -> None:
        worker = self.group.workers[event.data["local_rank"]]
        ended = WorkerExit(
            global_rank=worker.global_rank, time=self.loop.clock.wall(), **event.data
        )
        self.group.note_exit(ended)
        if self.history:
            self.history[-1].exits.append(ended)
            if not self.group.alive:
                self.history[-1].ended = ended.time

    def _note_stopped(self, event: Event) -> None:
        if self.history and self.history[-1].ended is None:
            self.history[-1].ended = self.loop.clock.wall()
        self.outputs.detach()

    def _facts(self) -> Facts:
        exits = self.group.exits
        return Facts(
            now=self.loop.clock.now(),
            entered_at=self._entered_at,
            attempt=self.group.attempt,
            local_world_size=self.group.spec.local_world_size,
            alive=self.group.alive,
            exit_codes={rank: ended.exit_code for rank, ended in exits.items()},
            stopped=tuple(rank for rank, ended in exits.items() if ended.stopped_by_agent),
            max_restarts=self.group.spec.max_restarts,
            restarts_left=self.group.spec.max_restarts - self.restarts_used,
            membership_restarts=self.membership_restarts,
        )

    def _record(
        self, event: Event, facts: Facts, outcome: Step | Ignored | ConditionFailed | str
    ) -> Mapping[str, Any]:
        return self._write(describe_step(event, facts, outcome))

    def _write(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put a record into the journal; returns it as it was written, for the observers."""
        stamped = {
            "time": self.loop.clock.wall(),
            "monotonic": self.loop.clock.now(),
            **record,
            "worker_state": self.group.state.value,
        }
        self.journal.write(stamped)
        return stamped

    def _tell(self, record: Mapping[str, Any]) -> None:
        for observer in self._observers:
            observer(record)

    # -- what actions use ----------------------------------------------------------------------

    def begin_attempt(self) -> None:
        """New workers, with no ranks yet; answers to what was asked before are stale from now."""
        self.group.begin_attempt(self.group.attempt + 1)

    def plan(self) -> LaunchPlan:
        """The plan of the current attempt, which begins here for the history.

        Raises ``RuntimeError`` when its workers have been started before: what is known of
        those would be taken for the new ones.
        """
        group = self.group
        if self.history and self.history[-1].number == group.attempt:
            raise RuntimeError("workers are started twice, with no join_rendezvous in between")
        world_size = group.world.size if group.world else group.spec.local_world_size
        self.history.append(Attempt(group.attempt, world_size, self.loop.clock.wall()))
        return self.planner.plan(group, restart_count=self.restarts_used)

    def note_failures(self) -> None:
        """Read what the workers that failed in this attempt left behind."""
        if self.history:
            attempt = self.history[-1]
            for ended in attempt.exits:
                if ended.failed and ended.global_rank not in attempt.failures:
                    attempt.failures[ended.global_rank] = self._failure(attempt.number, ended)

    def _failure(self, attempt: int, ended: WorkerExit) -> ProcessFailure:
        return ProcessFailure(
            local_rank=ended.local_rank,
            pid=ended.pid,
            exitcode=ended.exit_code,
            error_file=self.outputs.error_file(attempt, ended.local_rank),
            timestamp=ended.time,
            reason=ended.reason,
            stderr_tail=self.outputs.last_lines(attempt, ended.local_rank),
        )

    # -- the end -------------------------------------------------------------------------------

    def _result(self) -> RunResult:
        state = self.machine.state
        self.note_failures()
        if state.exit_code == "signal" and self.ending_signal and self.history:
            self.history[-1].excuse(self.ending_signal)
        shown = state.worker_state or self.group.state
        if self._lost_control:
            return RunResult(WorkerState.UNKNOWN, exit_code=_EXIT_LOST_CONTROL)
        last = self.history[-1] if self.history else None
        failures = last.failures if last and shown is not WorkerState.SUCCEEDED else {}
        done = [e.global_rank for e in last.exits if e.succeeded] if last else []
        return RunResult(
            state=shown,
            return_values=dict.fromkeys(done),
            failures=dict(failures),
            exit_code=self._exit_code(state.exit_code),
        )

    def _exit_code(self, declared: int | str | None) -> int:
        if declared == "worker":
            return self._worker_code()
        if declared == "signal":
            return 128 + signal.Signals[self.ending_signal] if self.ending_signal else 1
        return declared if isinstance(declared, int) else 1

    def _worker_code(self) -> int:
        """The code of the first worker that failed; 1 when the failure was not a worker's."""
        first = self.history[-1].first_failure() if self.history else None
        return shell_code(first.exitcode) & 0xFF if first else 1

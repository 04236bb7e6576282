"""The agent of one node: one group of workers, run through a machine by the engine.

It knows what the engine does not: the group and its ranks, the launcher and the rendezvous that
its actions ask, the counters, and what becomes of failures.
"""

from __future__ import annotations

import signal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from elastic_fsm.engine import EXIT_LOST_CONTROL, Engine
from elastic_fsm.facts import Facts
from elastic_fsm.failures import ProcessFailure, shell_code
from elastic_fsm.group import RunResult, WorkerExit, WorkerState
from elastic_fsm.history import Attempt
from elastic_fsm.problems import error_text
from elastic_fsm.ranks import assign_ranks
from elastic_fsm.world import Node, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from elastic_fsm.events import Event
    from elastic_fsm.group import WorkerGroup
    from elastic_fsm.journal import Journal
    from elastic_fsm.launchers.base import Launcher, LaunchPlan
    from elastic_fsm.loop import Loop
    from elastic_fsm.machine import Machine
    from elastic_fsm.rendezvous.base import Rendezvous
    from elastic_fsm.sources.base import CommandRunner, Source

__all__ = ["Agent", "Outputs", "Plans"]

_ENDS_OF_COMMANDS = ("command_finished", "command_failed")


class Outputs(Protocol):
    """What becomes of the workers' output."""

    def attach(self, plan: LaunchPlan) -> None:
        """Workers are about to be started: make their folders, follow their files."""
        ...

    def detach(self) -> None:
        """No worker of the attempt is left: show what is unfinished."""
        ...

    def close(self) -> None:
        """The run is over: as ``detach``, and give back whatever is of their own."""
        ...

    def last_lines(self, attempt: int, local_rank: int) -> list[str]:
        """The last lines of a worker's standard error."""
        ...

    def why_silent(self, attempt: int, local_rank: int) -> str:
        """Why there are none, if the worker may have written some; else empty."""
        ...

    def error_file(self, attempt: int, local_rank: int) -> str:
        """Path of a worker's error file; empty when it has none."""
        ...


class Plans(Protocol):
    """What makes the launch plan of each attempt."""

    def plan(self, group: WorkerGroup, *, restart_count: int) -> LaunchPlan:
        """The plan for a group whose ranks are known."""
        ...


class Agent(Engine):
    """Runs one group of workers through a machine.

    ``settings`` are the run's configuration values (group by group); ``first_attempt`` is the
    number of the first start; ``observers`` get every journal record, after it was written.
    """

    def __init__(
        self,
        *,
        group: WorkerGroup,
        node: Node,
        machine: Machine,
        loop: Loop,
        launcher: Launcher,
        rendezvous: Rendezvous,
        outputs: Outputs,
        journal: Journal,
        planner: Plans,
        settings: Mapping[str, Any],
        commands: CommandRunner,
        sources: Sequence[Source] = (),
        observers: Sequence[Callable[[Mapping[str, Any]], None]] = (),
        first_attempt: int = 0,
    ) -> None:
        super().__init__(
            group=group,
            machine=machine,
            loop=loop,
            journal=journal,
            settings=settings,
            sources=sources,
            observers=observers,
        )
        self.node = node
        self.launcher = launcher
        self.rendezvous = rendezvous
        self.outputs = outputs
        self.planner = planner
        self.commands = commands
        self.group.begin_attempt(first_attempt - 1)
        self.history: list[Attempt] = []
        self.restarts_used = 0
        self.membership_restarts = 0
        self._alive: tuple[int, ...] = ()
        self._notes: dict[str, Callable[[Event], None]] = {
            "rendezvous_completed": self._note_world,
            "workers_started": self._note_started,
            "worker_exited": self._note_exit,
            "workers_stopped": self._note_stopped,
            "workers_stuck": self._note_stopped,
        }

    def let_go(self) -> None:
        """See :meth:`Engine.let_go`."""
        others = (self.outputs.close, self._leave_rendezvous, self._close_commands)
        self.close_each(self._close_launcher, *others)

    def _leave_rendezvous(self) -> None:
        """The other nodes go on without this one; after a success they know that it is done."""
        if self.shown is not WorkerState.SUCCEEDED:
            self.rendezvous.leave()
        self.rendezvous.close()

    def _close_commands(self) -> None:
        """How they ended must be known, though nothing can react to it any more."""
        self.commands.close()
        for event in self.loop.left():
            if event.name in _ENDS_OF_COMMANDS:
                self.overlook(event)

    def _close_launcher(self) -> None:
        try:
            stuck = self.launcher.close()
        except Exception as error:  # who knows what is left
            self.lose_control(f"closing the launcher: {error_text(error)}", error)
            raise
        if stuck:
            self.lose_control(f"these processes survived SIGKILL: {stuck}")

    # -- what is known -------------------------------------------------------------------------

    def note(self, event: Event) -> None:
        """See :meth:`Engine.note`."""
        note = self._notes.get(event.name)
        if note is not None:
            note(event)
            self._alive = self.group.alive  # for the facts of all events until one of these

    def _note_world(self, event: Event) -> None:
        world = World.from_dict(event.data["world"])
        self.group.form(world, assign_ranks(world))

    def _note_started(self, event: Event) -> None:
        self.group.note_started(dict(enumerate(event.data["pids"])))

    def _note_exit(self, event: Event) -> None:
        worker = self.group.workers[event.data["local_rank"]]
        if worker.local_rank in self.group.exits:
            return
        ended = WorkerExit(
            global_rank=worker.global_rank, time=self.loop.clock.wall(), **event.data
        )
        self.group.note_exit(ended)
        if self.history:
            self.history[-1].exits.append(ended)
            if self._alive in ((), (ended.local_rank,)):  # nobody else runs, as far as was told
                self.history[-1].ended = ended.time

    def _note_stopped(self, event: Event) -> None:
        if self.history and self.history[-1].ended is None:
            self.history[-1].ended = self.loop.clock.wall()
        self.outputs.detach()

    def facts(self) -> Facts:
        """See :meth:`Engine.facts`."""
        group = self.group
        return Facts(
            now=self.loop.clock.now(),
            entered_at=self._entered_at,
            attempt=group.attempt,
            local_world_size=group.spec.local_world_size,
            alive=self._alive,
            exit_codes=MappingProxyType(group.exit_codes.copy()),
            stopped=group.stopped,
            max_restarts=group.spec.max_restarts,
            restarts_left=group.spec.max_restarts - self.restarts_used,
            membership_restarts=self.membership_restarts,
        )

    # -- what actions use ----------------------------------------------------------------------

    def begin_attempt(self) -> None:
        """New workers, with no ranks yet; answers to what was asked before are stale from now."""
        self.group.begin_attempt(self.group.attempt + 1)
        self._alive = ()

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

    def end_worker(self, local_rank: int, signal: str, why: str) -> None:
        """Send one worker a signal; if that ends it, ``why`` is the reason of its end."""
        self.launcher.signal(signal, local_rank, why=why)

    def note_failures(self) -> None:
        """Read what the workers that failed in this attempt left behind."""
        if self.history:
            attempt = self.history[-1]
            for ended in attempt.exits:
                if ended.failed and ended.global_rank not in attempt.failures:
                    attempt.failures[ended.global_rank] = self._failure(attempt.number, ended)

    def _failure(self, attempt: int, ended: WorkerExit) -> ProcessFailure:
        tail = self.outputs.last_lines(attempt, ended.local_rank)
        silent = "" if tail else self.outputs.why_silent(attempt, ended.local_rank)
        return ProcessFailure(
            local_rank=ended.local_rank,
            pid=ended.pid,
            exitcode=ended.exit_code,
            error_file=self.outputs.error_file(attempt, ended.local_rank),
            timestamp=ended.time,
            reason=ended.reason or silent,
            stderr_tail=tail,
            exception=self.launcher.exceptions().get(ended.local_rank),
        )

    # -- the end -------------------------------------------------------------------------------

    def result(self) -> RunResult:
        """See :meth:`Engine.result`."""
        state = self.machine.state
        self.note_failures()
        if state.exit_code == "signal" and self.last_signal and self.history:
            self.history[-1].excuse(self.last_signal)
        shown = self.shown
        if self._lost_control:
            return RunResult(WorkerState.UNKNOWN, exit_code=EXIT_LOST_CONTROL)
        last = self.history[-1] if self.history else None
        failures = last.failures if last and shown is not WorkerState.SUCCEEDED else {}
        values = self.launcher.return_values()
        done = {e.global_rank: e.local_rank for e in last.exits if e.succeeded} if last else {}
        return RunResult(
            state=shown,
            return_values={rank: values.get(local) for rank, local in sorted(done.items())},
            failures=dict(failures),
            exit_code=self._exit_code(state.exit_code),
        )

    def _exit_code(self, declared: int | str | None) -> int:
        if declared == "worker":
            return self._worker_code()
        if declared == "signal":
            return 128 + signal.Signals[self.last_signal] if self.last_signal else 1
        return declared if isinstance(declared, int) else 1

    def _worker_code(self) -> int:
        """The code of the first worker that failed; 1 when the failure was not a worker's."""
        first = self.history[-1].first_failure() if self.history else None
        return shell_code(first.exitcode) & 0xFF if first else 1

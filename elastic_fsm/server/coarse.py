"""The engine under a ``SimpleElasticAgent``: its actions are the agent's overridable methods.

They block, as torch's do. What makes that bearable is here: a stop signal ends the wait
(:meth:`CoarseAgent.block`), and the workers are looked at by a timer (:class:`Monitor`), since a
subclass that starts processes of its own offers nothing better.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from elastic_fsm.engine import EXIT_LOST_CONTROL, Engine, Interrupted
from elastic_fsm.events import Event
from elastic_fsm.facts import Facts
from elastic_fsm.failures import is_told_to_stop, shell_code
from elastic_fsm.group import RunResult, WorkerState
from elastic_fsm.problems import error_text
from elastic_fsm.server.looks import exit_codes, failure_data
from elastic_fsm.server.probes import observers_of, sources_of
from elastic_fsm.server.setup import log_change, result_or_cause

if TYPE_CHECKING:
    import signal as signals
    from collections.abc import Callable, Mapping

    from elastic_fsm.loop import Timer
    from elastic_fsm.server.interrupts import Interrupts
    from elastic_fsm.server.setup import Setup
    from elastic_fsm.server.simple import SimpleElasticAgent

__all__ = ["CoarseAgent", "Monitor", "run_coarse"]


def run_coarse(owner: SimpleElasticAgent, setup: Setup, interrupts: Interrupts) -> RunResult:
    """Run a machine whose actions are the owner's methods.

    Raises what one of them raised, or ``SignalException`` after a stop.
    """
    with setup.running(owner._rdzv_handler.get_run_id(), interrupts) as running:
        engine = CoarseAgent(
            owner,
            interrupts,
            machine=setup.machine(),
            loop=running.loop,
            journal=running.journal,
            settings=setup.values,
            # Its methods may block for minutes; it is alive all the while.
            sources=sources_of(owner, lambda: engine, running.loop, asks_loop=False),
            observers=observers_of(owner),
        )
        engine.group.attempt = running.folder.first_attempt - 1
        return result_or_cause(engine, engine.run())


class CoarseAgent(Engine):
    """Runs the methods of ``owner`` through a machine."""

    def __init__(self, owner: SimpleElasticAgent, interrupts: Interrupts, **parts: Any) -> None:
        super().__init__(group=owner._worker_group, **parts)
        self.owner = owner
        self.monitor = Monitor(self)
        self.membership_restarts = 0
        self.last = RunResult(WorkerState.UNKNOWN)
        self._is_down = False
        self._interrupts = interrupts

    @property
    def restarts_used(self) -> int:
        """Kept by the owner: subclasses read and write what remains of the budget."""
        return self.group.spec.max_restarts - self.owner._remaining_restarts

    @restarts_used.setter
    def restarts_used(self, number: int) -> None:
        self.owner._remaining_restarts = self.group.spec.max_restarts - number

    def note(self, event: Event) -> None:
        """See :meth:`Engine.note`."""
        if event.name == "signal_received":
            self._interrupts.taken_up(event.data["signal"])
        self._is_down |= event.name in ("workers_stopped", "workers_succeeded")

    def facts(self) -> Facts:
        """See :meth:`Engine.facts`. What workers did, only the owner knows: what it last said."""
        spec, failed = self.group.spec, exit_codes(self.last)
        alive = () if self._is_down else self.group.alive
        return Facts(
            now=self.loop.clock.now(),
            entered_at=self._entered_at,
            attempt=self.group.attempt,
            local_world_size=spec.local_world_size,
            alive=tuple(rank for rank in alive if rank not in failed),
            exit_codes=MappingProxyType(failed),
            max_restarts=spec.max_restarts,
            restarts_left=self.owner._remaining_restarts,
            membership_restarts=self.membership_restarts,
        )

    def let_go(self) -> None:
        """See :meth:`Engine.let_go`. The owner's ``run`` shuts down, whatever happened."""
        self.monitor.end()
        if self.shown is not WorkerState.SUCCEEDED:
            self.owner._membership.end("left")

    def result(self) -> RunResult:
        """See :meth:`Engine.result`."""
        shown = self.shown
        if self._lost_control or shown is WorkerState.UNKNOWN:
            return RunResult(WorkerState.UNKNOWN, exit_code=EXIT_LOST_CONTROL)
        if shown is WorkerState.STOPPED:
            return RunResult(shown, exit_code=1)
        is_failed = shown is WorkerState.FAILED
        return RunResult(
            shown,
            return_values=self.last.return_values,
            failures=self.last.failures if is_failed else {},
            exit_code=self._worker_code() if is_failed else 0,
        )

    def _worker_code(self) -> int:
        first = min(self.last.failures.values(), key=lambda f: f.timestamp, default=None)
        return shell_code(first.exitcode) & 0xFF if first else 1

    def _write(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """A change is logged with its journal line: the step's method may block for minutes."""
        written = super()._write(record)
        log_change(written)
        return written

    # -- what actions use ----------------------------------------------------------------------

    def begin_attempt(self) -> None:
        """Answers to what was asked before are stale from now.

        The workers stay those of the last attempt until new ranks are known: whoever stops them
        must still find them.
        """
        self.group.attempt += 1
        self.last = RunResult(WorkerState.UNKNOWN)
        self._is_down = False
        self.owner._ended_workers.clear()

    def end_worker(self, local_rank: int, signal: str, why: str) -> None:
        """Send one worker a signal; its failure has ``why`` as the reason."""
        self.owner._ended_workers.end(self.group.workers[local_rank], signal, why)

    def answer(self, name: str, **data: Any) -> None:
        """Post what became of an action."""
        self.loop.post(Event(name, data, attempt=self.group.attempt))

    def block(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method that may block.

        Raises :class:`Interrupted` when a stop signal ended it: the loop has its event, or will.
        A ``SignalException`` that no signal has caused is an error like others.
        """
        try:
            with self._interrupts.raising():
                return method(*arguments)
        except Exception as error:
            if is_told_to_stop(error) and self._interrupts.is_real(error):
                raise Interrupted from error
            raise

    def shut_down(self, death_sig: signals.Signals, timeout: float | None = None) -> None:
        """Ask the owner to shut down; without ``timeout`` (seconds) it has its own."""
        seconds = self.owner._shutdown_timeout if timeout is None else timeout
        self.owner._shutdown(death_sig, timeout=seconds)


class Monitor:
    """Looks at the workers every ``monitor_interval`` seconds, from :meth:`begin` to :meth:`end`.

    A look that finds nothing new makes no event, so that a journal of weeks is not a list of
    looks. ``membership_changed`` is posted when the rendezvous has nodes that wait.
    """

    def __init__(self, agent: CoarseAgent) -> None:
        self._agent = agent
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Look, one interval from now."""
        spec = self._agent.group.spec
        self._timer = self._agent.loop.call_later(spec.monitor_interval, self._look)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        try:
            event = self._agent.block(self._find)
        except Interrupted:
            return  # what the signal does is for the machine
        except Exception as error:
            self._agent.action_failed("_monitor_workers", error_text(error), error)
            return
        if event is None:
            self.begin()
        else:
            self._agent.loop.post(event)

    def _find(self) -> Event | None:
        """What a look finds; None when all is as before."""
        event = self._compare()
        if event is not None:  # what follows may block for long
            self._agent.owner._membership.rest()
        return event

    def _compare(self) -> Event | None:
        agent = self._agent
        result = agent.owner._monitor_workers(agent.group)
        if result is None:
            raise TypeError("_monitor_workers must return a RunResult, not None")
        agent.owner._ended_workers.explain(result)
        agent.last = result
        agent.group.state = result.state
        agent.owner._put_state_metrics(result.state)
        if result.state is WorkerState.SUCCEEDED:
            return self._event("workers_succeeded")
        if result.state in (WorkerState.FAILED, WorkerState.UNHEALTHY):
            return self._event("workers_failed", **failure_data(result))
        if result.state is not WorkerState.HEALTHY:
            raise RuntimeError(f"the worker group is in the state {result.state.value}")
        reason = agent.owner._why_reform()
        return self._event("membership_changed", reason=reason) if reason else None

    def _event(self, name: str, **data: Any) -> Event:
        return Event(name, data, attempt=self._agent.group.attempt)

"""A run as a story: what the world does and when, then what the agent made of it."""

from __future__ import annotations

import copy
import functools
import signal as signals
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from elastic_fsm import actions, conditions
from elastic_fsm.agent import Agent
from elastic_fsm.events import Event
from elastic_fsm.group import WorkerGroup, WorkerSpec
from elastic_fsm.journal import Journal
from elastic_fsm.journal_header import journal_header
from elastic_fsm.launchers.plan import Planner
from elastic_fsm.loop import Loop
from elastic_fsm.machine import load_machine
from elastic_fsm.registry import Registry
from elastic_fsm.signal_names import check_signal_name
from elastic_fsm.testing.clock import ManualClock
from elastic_fsm.testing.commands import ScriptedCommands
from elastic_fsm.testing.launcher import ScriptedLauncher
from elastic_fsm.testing.rendezvous import ScriptedRendezvous
from elastic_fsm.world import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import ModuleType

    from elastic_fsm.group import RunResult
    from elastic_fsm.launchers.base import LaunchPlan

__all__ = ["Scenario", "settings_for"]


class _NoOutputs:
    """Workers that never ran have written nothing."""

    def attach(self, plan: LaunchPlan) -> None: ...

    def detach(self) -> None: ...

    def close(self) -> None: ...

    def last_lines(self, attempt: int, local_rank: int) -> list[str]:
        return []

    def why_silent(self, attempt: int, local_rank: int) -> str:
        return ""

    def error_file(self, attempt: int, local_rank: int) -> str:
        return ""


class Scenario:
    """One run of a machine, from script to result.

    ``machine`` is the name of a shipped one; ``changes`` are laid over the configuration group
    by group, as in ``stop={"grace": 5.0}`` or ``machine={"transitions": {…}}``. ``plugins`` are
    modules with more conditions, actions and delays.
    """

    def __init__(
        self,
        machine: str = "elastic",
        /,
        *,
        workers: int = 2,
        max_restarts: int = 0,
        plugins: Iterable[ModuleType] = (),
        journal: Path | None = None,
        first_attempt: int = 0,
        **changes: Mapping[str, Any],
    ) -> None:
        spec = {"local_world_size": workers, "max_restarts": max_restarts}
        self._prepare(
            settings_for(machine, **{"spec": spec, **changes}),
            Registry([conditions, actions, *plugins]),
            journal=journal,
            first_attempt=first_attempt,
        )

    @classmethod
    def of(
        cls, settings: Mapping[str, Any], registry: Registry, *, journal: Path | None = None
    ) -> Scenario:
        """A run with a whole configuration, and with the rules that its machine may name.

        Raises :class:`~elastic_fsm.problems.BadInput` when the machine has problems.
        """
        scenario = cls.__new__(cls)
        scenario._prepare(settings, registry, journal=journal, first_attempt=0)
        return scenario

    def _prepare(
        self,
        settings: Mapping[str, Any],
        registry: Registry,
        *,
        journal: Path | None,
        first_attempt: int,
    ) -> None:
        workers = settings["spec"]["local_world_size"]
        self.settings = settings
        self.records: list[Mapping[str, Any]] = []
        self.observers: list[Callable[[Mapping[str, Any]], None]] = [self.records.append]
        machine = load_machine(settings["machine"], registry, settings)
        self.loop = Loop(ManualClock())
        self.launcher = ScriptedLauncher(
            self.loop, kill_timeout=self.settings["stop"]["kill_timeout"]
        )
        self.rendezvous = ScriptedRendezvous(self.loop)
        self.commands = ScriptedCommands(self.loop)
        self.agent = Agent(
            group=WorkerGroup(
                WorkerSpec(
                    "default",
                    workers,
                    entrypoint="worker",
                    max_restarts=settings["spec"]["max_restarts"],
                )
            ),
            node=Node("node-0", "default", workers, "127.0.0.1"),
            machine=machine,
            loop=self.loop,
            launcher=self.launcher,
            rendezvous=self.rendezvous,
            outputs=_NoOutputs(),
            journal=self._journal(journal),
            planner=Planner("scenario", None),
            settings=self.settings,
            commands=self.commands,
            observers=self.observers,
            first_attempt=first_attempt,
        )

    def _journal(self, path: Path | None) -> Journal:
        journal = Journal(path)
        journal.header(journal_header(self.settings, run_id="scenario", host="node-0"))
        return journal

    def at(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Call something at a point in time."""
        self.loop.call_later(seconds, functools.partial(call, *args))

    def exits(self, local_rank: int, *, code: int = 0, at: float) -> None:
        """A worker ends, if it runs then, with a code of 0 to 255 or by the signal ``-code``.

        Raises ``ValueError`` when there is no such worker or no such end.
        """
        workers = self.agent.group.spec.local_world_size
        if local_rank not in range(workers):
            raise ValueError(f"there is no worker {local_rank}: they are 0 to {workers - 1}")
        if code not in range(256) and -code not in set(signals.Signals):
            raise ValueError(f"nobody ends with {code}: 0 to 255, or -n for signal n")
        self.at(at, self.launcher.exits, local_rank, code)

    def signal(self, name: str, *, at: float) -> None:
        """The agent is sent a signal. Raises ``ValueError`` when there is none of this name."""
        check_signal_name(name)
        self.at(at, self.loop.post_first, Event("signal_received", {"signal": name}))

    def post(self, name: str, *, at: float, **data: Any) -> None:
        """Any other event, such as ``membership_changed``."""
        self.at(at, self.loop.post, Event(name, data))

    def play(self) -> RunResult:
        """Run until the machine ends. Raises :class:`NothingCanHappen` when it never will."""
        try:
            return self.agent.run()
        finally:
            self.loop.close()

    @property
    def path(self) -> list[tuple[str, str]]:
        """The transitions taken, each with the state that the machine was in afterwards."""
        steps = (r for r in self.records if r.get("outcome") == "step")
        return [(r["transition"], r["dest"]) for r in steps]


def settings_for(machine: str, /, **changes: Mapping[str, Any]) -> dict[str, Any]:
    """The default configuration with a shipped machine, as plain values, and changes to it."""
    values = copy.deepcopy(_composed(machine))
    _lay_over(values, changes)
    return values


@functools.cache
def _composed(machine: str) -> dict[str, Any]:
    from elastic_fsm.config import compose

    return compose([f"machine={machine}"]).values


def _lay_over(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Mappings are merged, everything else is replaced."""
    for key, change in changes.items():
        if isinstance(change, Mapping) and isinstance(values.get(key), dict):
            _lay_over(values[key], change)
        else:
            values[key] = copy.deepcopy(change)

"""From a resolved configuration to a run that has passed every check; nothing is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elastic_fsm.command import check_command
from elastic_fsm.config.masking import masks_in
from elastic_fsm.descriptors import check_descriptors
from elastic_fsm.devices import workers_for_auto
from elastic_fsm.group import WorkerGroup, WorkerSpec
from elastic_fsm.launchers.choice import check_launcher
from elastic_fsm.launchers.plan import Planner
from elastic_fsm.logs.choice import check_logs
from elastic_fsm.machine import Machine, load_machine
from elastic_fsm.plugins import rules_for
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem
from elastic_fsm.ranks import assign_ranks
from elastic_fsm.rendezvous.choice import check_rendezvous, is_standalone
from elastic_fsm.rundir import new_run_id, node_name
from elastic_fsm.server.fitting import misfits
from elastic_fsm.world import Node, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.config import Composed
    from elastic_fsm.launchers.base import LaunchPlan

__all__ = ["Prepared", "prepare", "preview"]


class Prepared(NamedTuple):
    """A run that has passed every check; nothing has been started or written."""

    composed: Composed
    values: Mapping[str, Any]
    spec: WorkerSpec
    machine: Machine
    run_id: str
    host: str

    @property
    def node(self) -> Node:
        """This node's part in the rendezvous. Workers of a single node meet on the loopback
        interface, which needs no name service."""
        alone = is_standalone(self.values["rendezvous"])
        address = self.spec.local_addr or ("127.0.0.1" if alone else self.host)
        name = f"{self.host}:{os.getpid()}"
        return Node(name, self.spec.role, self.spec.local_world_size, address)

    def planner(self, node_dir: Path) -> Planner:
        """What makes the plans of this run; ``node_dir`` is its folder on this node."""
        return Planner(
            run_id=self.run_id,
            node_dir=None if self.values["logs"]["mode"] == "torchrun" else node_dir,
            log_mode=self._log_mode,
            stop_signals=tuple(self.values["stop"]["signals"]),
        )

    @property
    def _log_mode(self) -> str:
        """A single worker on a terminal gets the terminal itself: bars, colours, debuggers."""
        logs = self.values["logs"]
        alone = self.spec.local_world_size == 1 and _has_terminal()
        passes = logs["mode"] == "tee" and logs["pass_through"] and alone
        return "terminal" if passes else str(logs["mode"])


def _has_terminal() -> bool:
    """In the background of a shell the terminal's keys belong to somebody else."""
    if not (os.isatty(0) and os.isatty(1)):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # not the terminal of our session: no shell shares it out
        return True


def prepare(
    composed: Composed,
    command: Sequence[str] = (),
    *,
    module: bool = False,
    plugin_folders: Sequence[Path] = (),
    place: str = COMMAND_LINE,
) -> Prepared:
    """Check everything that can be checked without starting anything.

    ``command`` comes from a command line and replaces entrypoint and arguments, word for word.
    ``place`` is where a command is missed if there is none.
    Plug-ins are looked for in ``plugin_folders`` and the current one, too. Raises
    :class:`BadInput` with all problems found.
    """
    problems = list(_hidden(composed, has_command=bool(command)))
    if command:
        problems += _said_twice(composed, place)
        composed = composed.with_command(command, module=module)
    values = composed.values
    machine: Machine | None = None
    try:
        registry = rules_for(values["plugins"], plugin_folders)
        machine = load_machine(values["machine"], registry, values)
    except BadInput as error:
        problems += map(composed.locate, error.problems)
    spec_values = _spec_values(values["spec"], values["logs"])
    typed = place if command or not spec_values["entrypoint"] else ""
    problems += (_placed(composed, p, typed) for p in check_command(spec_values))
    problems += map(composed.locate, _check_groups(values))
    descriptors = check_descriptors(values, spec_values["local_world_size"])
    problems += map(composed.locate, descriptors)
    launcher = check_launcher(values["launcher"], spec_values)
    problems += (_placed(composed, p, typed) for p in launcher)
    if machine is not None:
        problems += map(composed.locate, misfits(machine, coarse=False))
    if problems or machine is None:
        raise BadInput(problems)
    prepared = Prepared(
        composed=composed,
        values=values,
        spec=_spec(composed, spec_values),
        machine=machine,
        run_id=values["run_id"] or new_run_id(),
        host=node_name(),
    )
    try:
        preview(prepared)
    except ValueError as error:  # fewer devices than workers
        raise BadInput([composed.locate(Problem(str(error), path="spec"))]) from error
    return prepared


def _spec(composed: Composed, values: Mapping[str, Any]) -> WorkerSpec:
    """The spec; what only it finds fault with is told of its field."""
    try:
        return WorkerSpec(**values)
    except ValueError as error:
        name, _, what = str(error).partition(" ")
        is_field = name in composed.values["spec"]
        problem = Problem(what, f"spec.{name}") if is_field else Problem(str(error), "spec")
        raise BadInput([composed.locate(problem)]) from error


def _spec_values(spec: Mapping[str, Any], logs: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        **spec,
        "duplicate_stdout_filters": logs["stdout_filters"],
        "duplicate_stderr_filters": logs["stderr_filters"],
    }
    if values["local_world_size"] == "auto":
        values["local_world_size"] = workers_for_auto()
    return values


def _hidden(composed: Composed, *, has_command: bool) -> Iterator[Problem]:
    """A run that was saved has a mask in the place of each secret, which is not for its workers."""
    replaced = ("spec.entrypoint", "spec.args") if has_command else ()
    for path in masks_in(composed.values):
        if path not in replaced:
            what, fix = "was hidden when it was saved", f"give it anew: {path}=…"
            yield composed.locate(Problem(what, path=path, fix=fix))


def _said_twice(composed: Composed, place: str) -> Iterator[Problem]:
    """A command at the end of the line replaces what a file says, not what the line itself says."""
    for name in ("entrypoint", "args"):
        if not composed.values["spec"][name]:
            continue
        what, path = "the command stands at the end of the line, too", f"spec.{name}"
        problem = composed.locate(Problem(what, path))
        if problem.where == place:
            yield problem._replace(fix="leave one of them out")


def _placed(composed: Composed, problem: Problem, typed: str) -> Problem:
    """A problem of the command stands where it was ``typed``, or else in a file."""
    if typed and problem.path.startswith(("spec.entrypoint", "spec.args")):
        return problem._replace(where=typed, path="")
    return composed.locate(problem)


def _check_groups(values: Mapping[str, Any]) -> Iterator[Problem]:
    """What the groups' own parts know of their values."""
    yield from check_rendezvous(values)
    yield from check_logs(values["logs"])
    handler = values["spec"]["event_log_handler"]
    if handler != "null":  # the one that most have, and the others are slow to load
        from elastic_fsm.telemetry.events import get_logging_handler

        try:
            get_logging_handler(handler)
        except ValueError as error:
            yield Problem.told(str(error), path="spec.event_log_handler")


def preview(prepared: Prepared, attempt: int = 0, *, node_dir: Path | None = None) -> LaunchPlan:
    """The plan of the first attempt, with a made-up port: what ``run`` would start.

    ``attempt`` is its number, which is not 0 where a run id is used again, and ``node_dir`` the
    run's folder on this node, where it is known already.

    Raises ``ValueError`` where a worker cannot get its device.
    """
    group = WorkerGroup(prepared.spec)
    group.begin_attempt(attempt)
    node = prepared.node
    world = World(0, (node,), 0, node.address, 0)
    group.form(world, assign_ranks(world))
    base = Path(prepared.values["run_dir"]).absolute()
    planner = prepared.planner(node_dir or base / prepared.run_id / prepared.host)
    return planner.plan(group, restart_count=0)

"""What a run would start, as text: the commands, their environments and their files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from elastic_fsm.config.masking import hide, mask_env
from elastic_fsm.preparing import preview
from elastic_fsm.rendezvous.choice import is_standalone, nodes_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.preparing import Prepared

__all__ = ["describe"]


def describe(prepared: Prepared) -> str:
    """The launch plan, secrets masked; without a port that is chosen at each start."""
    machine = prepared.machine.spec
    lines = [
        f"run {prepared.run_id} on {prepared.host}: nothing is started",
        f"machine: {len(machine.states)} states, {len(machine.transitions)} transitions, "
        "no problems",
    ]
    if not prepared.spec.master_port:
        lines.append("MASTER_PORT is chosen at each start")
    rendezvous = prepared.values["rendezvous"]
    if not is_standalone(rendezvous):
        nodes = nodes_in_words(rendezvous)
        lines.append(f"{nodes} agree on ranks and addresses; shown is one that is alone")
    secrets = prepared.composed.secrets
    for worker in preview(prepared).workers:
        lines += ["", *_worker(worker, secrets)]
    return str(hide("\n".join(lines), secrets)) + "\n"  # a path may hold one, too


def _worker(worker: WorkerPlan, secrets: tuple[str, ...]) -> Iterator[str]:
    yield f"rank {worker.global_rank} (local rank {worker.local_rank}):"
    yield f"  command  {shlex.join(hide(list(worker.argv), secrets))}"
    if worker.cwd:
        yield f"  cwd      {worker.cwd}"
    yield f"  stdin    {'of the agent' if worker.stdin else 'none'}"
    yield f"  stdout   {worker.stdout or 'of the agent'}"
    yield f"  stderr   {worker.stderr or 'of the agent'}"
    yield f"  errors   {worker.error_file or 'none'}"
    for name, value in sorted(mask_env(worker.env, secrets).items()):
        if (name, value) != ("MASTER_PORT", "0"):
            yield f"  {name}={shlex.quote(value)}"

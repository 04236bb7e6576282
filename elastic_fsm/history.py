"""What happened in each attempt: the material of reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.failures import ProcessFailure
    from elastic_fsm.group import WorkerExit

__all__ = ["Attempt"]


@dataclass(slots=True)
class Attempt:
    """One start of the workers. Times are wall time; ``failures`` is by global rank, causes only.

    ``reason`` says why the attempt ended, when it was not a worker's doing.
    """

    number: int
    world_size: int
    started: float
    ended: float | None = None
    exits: list[WorkerExit] = field(default_factory=list)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

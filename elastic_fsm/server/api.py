"""What every agent offers, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.group import RunResult, WorkerGroup

__all__ = ["DEFAULT_ROLE", "ElasticAgent"]

DEFAULT_ROLE = "default"


class ElasticAgent(ABC):
    """Manages one group of workers on one node, from their first start to the end of the run."""

    @abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the workers until they are done, or have failed more often than they may.

        Returns a result also when workers failed; raises for what is not a worker's doing.
        """

    @abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The group, as it is now; it changes while the agent runs."""

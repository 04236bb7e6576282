"""What the functions of an attempt returned and raised, by local rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.problems import error_text

if TYPE_CHECKING:
    from elastic_fsm.launchers.functions import Outcome

__all__ = ["Results"]


class Results:
    """Taken from each worker when it has ended."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.exceptions: dict[int, BaseException] = {}

    def take(self, local_rank: int, outcome: Outcome | None, exit_code: int) -> str:
        """Keep what a worker left; says why a value cannot be read here, which is a failure."""
        if outcome is None:
            return ""
        try:
            value, error = outcome.take()
        except (Exception, SystemExit) as problem:  # whatever it is, it cannot be made again here
            return "" if exit_code else f"its return value cannot be read: {error_text(problem)}"
        if exit_code == 0:
            self.values[local_rank] = value
        elif error is not None:
            self.exceptions[local_rank] = error
        return ""

"""What a look at the workers has found, in the words of events and facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elastic_fsm.failures import ProcessFailure
    from elastic_fsm.group import RunResult

__all__ = ["exit_codes", "failure_data"]

# What a journal keeps of failed workers: it is their only place where no report is written.
_MOST_WORKERS, _MOST_LINES, _LONGEST_LINE = 8, 20, 500


def exit_codes(result: RunResult) -> dict[int, int]:
    """Of the workers that failed, by local rank."""
    return {failure.local_rank: failure.exitcode for failure in result.failures.values()}


def failure_data(result: RunResult) -> dict[str, Any]:
    """Data of ``workers_failed``: the shown state, exit codes by global rank, and by local rank
    the last words of the first few."""
    first = list(result.failures.values())[:_MOST_WORKERS]
    return {
        "state": result.state.value,
        "failures": {str(rank): failure.exitcode for rank, failure in result.failures.items()},
        "last_lines": {str(failure.local_rank): _last_lines(failure) for failure in first},
    }


def _last_lines(failure: ProcessFailure) -> list[str]:
    """Its traceback if it left one, else the end of its standard error, else what is said of it."""
    traceback = getattr(failure, "traceback", "").splitlines()  # torch's own have neither
    lines = traceback or getattr(failure, "stderr_tail", []) or str(failure.message).splitlines()
    return [line[:_LONGEST_LINE] for line in lines[-_MOST_LINES:]]

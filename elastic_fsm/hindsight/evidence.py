"""What failed workers left: from the report, or, when the agent wrote none, from their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import describe_exit
from elastic_fsm.hindsight.story import Evidence
from elastic_fsm.logs.files import last_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from elastic_fsm.hindsight.story import Chapter

__all__ = ["add_evidence"]

_LINES, _TRACEBACK = 20, 60
_LONGEST_LINE = 500
_MOST_WORKERS = 8


def add_evidence(chapters: list[Chapter], node: Path, report: Mapping[str, Any]) -> None:
    """Give each failure the last words of its workers, of the first few at least."""
    attempts = {attempt["attempt"]: attempt for attempt in report.get("attempts", ())}
    for chapter in chapters:
        failed = [e for e in chapter.exits if e["exit_code"] and not e["stopped_by_agent"]]
        if chapter.kind == "failure":
            causes = {
                c["local_rank"]: c for c in attempts.get(chapter.attempt, {}).get("causes", ())
            }
            chapter.evidence = [
                _reported(causes[e["local_rank"]])
                if e["local_rank"] in causes
                else _found(node, chapter.attempt, e)
                for e in failed[:_MOST_WORKERS]
            ]


def _reported(cause: Mapping[str, Any]) -> Evidence:
    return Evidence(
        rank=cause["rank"],
        local_rank=cause["local_rank"],
        ended=describe_exit(cause["exit_code"]),
        message=_short(cause["message"]),
        traceback="\n".join(map(_short, cause["traceback"].splitlines()[-_TRACEBACK:])),
        lines=tuple(map(_short, cause["stderr_tail"][-_LINES:])),
        source="report.json",
    )


def _found(node: Path, attempt: int, ended: Mapping[str, Any]) -> Evidence:
    """The global rank is not in the event; on one node it is the same as the local one."""
    rank = ended["local_rank"]
    if told := ended.get("last_lines"):  # where there may be no log of ours
        lines = tuple(map(_short, told[-_LINES:]))
        how = describe_exit(ended["exit_code"])
        return Evidence(rank, rank, how, lines=lines, source="journal.jsonl")
    log = node / f"attempt_{attempt}" / str(rank) / "stderr.log"
    return Evidence(
        rank=rank,
        local_rank=rank,
        ended=describe_exit(ended["exit_code"]),
        message=_short(ended["reason"]),
        lines=tuple(map(_short, last_lines(log, _LINES))),
        source=str(log),
    )


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …"

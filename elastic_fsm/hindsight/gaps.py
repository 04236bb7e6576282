"""The chapter that stands where lines of a long journal are missing: what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.story import Chapter, Line
from elastic_fsm.narration import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.journal_reader import Gap, JournalFile

__all__ = ["chapter_of_gap", "facts_after"]


def chapter_of_gap(
    journal: JournalFile,
    gap: Gap,
    *,
    number: int,
    at: tuple[float, float],
    restarts: int,
    anew: int,
) -> Chapter:
    """``at``: from the last line before it to the last one in it, in seconds as of the story;
    ``restarts`` and ``anew``: what was spent, and how often the group was formed anew, in it."""
    start, end = at
    lines = counted(gap.missing, "line") + (" missing" if gap.lost else " dropped")
    line = _line(gap, end, restarts, anew)
    return Chapter(
        number=number,
        kind="gap",
        title=f"{lines} here, of {say_duration(end - start)}",
        time=_last_time(journal, gap) or line.time,
        at=start,
        attempt=facts_after(journal, gap).get("attempt", -1),
        lines=[line],
        dropped=gap.missing,
        restarts_used=restarts,
        membership_restarts=anew,
    )


def _line(gap: Gap, at: float, restarts: int, anew: int) -> Line:
    """What is said in the place of dropped lines, at the time of the last of them."""
    sums = counted(restarts, "restart") + (f", formed anew {anew} ×" if anew else "")
    said = f"after them in {gap.before.state}; of the time between only sums are known: {sums}"
    return Line("", gap.before.last_time or 0.0, at, said, "dropped")


def _last_time(journal: JournalFile, gap: Gap) -> float | None:
    """The wall time of the last line before it."""
    return journal.records[gap.index - 1]["time"] if gap.index else gap.before.first_time


def facts_after(journal: JournalFile, gap: Gap) -> Mapping[str, Any]:
    """What was known at the first event after it; nothing when there is none."""
    following = journal.records[gap.index :]
    return next((record["facts"] for record in following if "facts" in record), {})

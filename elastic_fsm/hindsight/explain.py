"""``elastic-fsm explain``: the story of a run, and the answer to "why?"."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.evidence import add_evidence
from elastic_fsm.hindsight.liveness import agent_of, agent_pid, read_up_to_now
from elastic_fsm.hindsight.reported import final_state, read_report
from elastic_fsm.hindsight.story import Ending, Story, tell_ends
from elastic_fsm.hindsight.teller import Teller
from elastic_fsm.narration import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from elastic_fsm.hindsight.story import Chapter
    from elastic_fsm.journal_reader import JournalFile

__all__ = ["clock", "story_of", "time_lost"]


def story_of(path: Path) -> Story:
    """The story of a node's journal; raises :class:`BadInput` when there is none to read."""
    journal = read_up_to_now(path)
    report, doubt = read_report(journal.path)
    teller = Teller(journal)
    summary, ending = journal.summary, _ending(journal, report)
    facts = _facts(journal)
    if ending.unwritten and teller.chapters:
        teller.chapters[-1].cut_off()
    add_evidence(teller.chapters, journal.path.parent, report)
    story = Story(
        journal=journal,
        run_id=str(journal.header.get("run_id", "")),
        host=str(journal.header.get("host", "")),
        path=str(journal.path),
        began=summary.first_time,
        seconds=teller.spans[-1].end if teller.spans else 0.0,
        ending=ending,
        events=sum(summary.outcomes.values()),
        attempts=_attempts(journal, report),
        restarts_used=report.get("restarts_used", summary.restarts),
        max_restarts=facts[-1]["max_restarts"] if facts else 0,
        membership_restarts=report.get("membership_restarts", summary.membership_restarts),
        chapters=teller.chapters,
        states=teller.states(),
        costs=teller.costs(),
        spans=teller.spans,
        workers=teller.workers,
        transitions=dict(summary.transitions),
    )
    story.remarks = [*journal.remarks(), *_remarks(story, journal), *([doubt] if doubt else [])]
    story.answer = _answer(story)
    return story


def _facts(journal: JournalFile) -> list[dict[str, Any]]:
    return [record["facts"] for record in journal.records if "facts" in record]


def _attempts(journal: JournalFile, report: Mapping[str, Any]) -> int:
    """How many began; the run was asked for in the attempt before the first, which has the number
    -1 unless the folder was used before. The report knows also of those that were not written."""
    reported = len(report.get("attempts", ()))
    seen: list[int] = [facts["attempt"] for facts in _facts(journal)]
    if not seen:
        return reported
    has_first = not (journal.gaps and journal.gaps[0].index == 0)
    return max(reported, seen[-1] - (seen[0] if has_first else -1))


def _remarks(story: Story, journal: JournalFile) -> Iterator[str]:
    """What the journal does not say of the run."""
    summary = journal.summary
    if story.ending.unwritten:
        yield (
            f"it ends before the run did: the last line is of {clock(summary.last_time)}, in "
            f"{summary.state or 'its first moment'}"
        )
    unknown = summary.visits + 1 - sum(state.visits for state in story.states)
    if unknown > 0 and journal.gaps:
        visits = counted(unknown, "more visit")
        yield f"in dropped lines there were {visits}, of states that are not known"


def _ending(journal: JournalFile, report: Mapping[str, Any]) -> Ending:
    summary = journal.summary
    newest = journal.path.name == "journal.jsonl"
    alive = agent_of(journal)
    has_ended = journal.final or alive
    reached = "" if has_ended else final_state(report, journal.header["machine"])
    changed = None
    if summary.last_time is not None:
        changed = summary.last_time - (summary.now - summary.entered_at)
    return Ending(
        kind=_kind(alive, final=journal.final or bool(reached), reported=bool(report)),
        state=reached or summary.state,
        worker_state=report.get("state", "") if reached else summary.worker_state,
        time=None if reached else changed,
        exit_code=report.get("exit_code"),
        pid=agent_pid(journal.path.parent) if newest else journal.header.get("pid"),
        error=report.get("error", ""),
        why=report.get("why", ""),
        unwritten=bool(reached),
    )


def _kind(alive: bool | None, *, final: bool, reported: bool) -> str:
    if final:
        return "ended"
    if alive:
        return "running"
    if reported:
        return "lost control"
    return "unclear" if alive is None else "agent died"


def clock(seconds: float | None, *, date: bool = False) -> str:
    """Wall time to the millisecond, as in the clock of the computer that reads it."""
    if seconds is None:
        return "-"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S", time.localtime(seconds))
    return f"{stamp}.{int(seconds * 1000) % 1000:03}"


# -- why ---------------------------------------------------------------------------------------


def _answer(story: Story) -> list[str]:
    """Why the run ended, or what is the matter with it, and why it was restarted before."""
    return [*_why_here(story), *_why_restarted(story)]


def _why_here(story: Story) -> list[str]:
    ending = story.ending
    state, since = ending.state or "its first moment", clock(ending.time)
    if ending.kind == "running":
        return [f"The run is under way (agent's pid {ending.pid}): {state} since {since}."]
    if ending.kind == "agent died":
        return [
            f"The agent (pid {ending.pid}) died: it holds the run's lock no more, and no final "
            f"state was reached. The last it wrote was that the run was in {state} since {since}."
        ]
    if ending.kind == "unclear":
        return [
            f"No final state was reached: {state} since {since}. Whether the agent (pid "
            f"{ending.pid}) is alive cannot be told, for this file system knows no locks."
        ]
    if ending.kind == "lost control":
        why = f": {ending.error}" if ending.error else ""
        return [_sentence(f"The agent lost control in {state}, and ended the run{why}")]
    code = "" if ending.exit_code is None else f", exit code {ending.exit_code}"
    ended = f"The run ended in {ending.state}{code}"
    if ending.unwritten:
        why = f": {ending.why}" if ending.why else ""
        return [_sentence(f"{ended}, as the report tells, and not the journal{why}")]
    return _why_ended(ended, story.chapters[-1]) if story.chapters else []


def _why_ended(ended: str, chapter: Chapter) -> list[str]:
    first, last = chapter.first, chapter.last
    if chapter.dropped:
        began = f"{ended}. What began this is not known: {chapter.title}."
    else:
        began = (
            f"{ended}, because of this: {_sentence(first.happened)} That was at "
            f"{clock(first.time)}, in {first.source}"
            f"{_meaning(first.transition, first.meaning)}."
        )
    if last is first:
        return [began]
    after = say_duration(last.at - first.at)
    finally_ = (
        f"{after} later {last.transition} took it from {last.source} to {last.dest}"
        f"{_meaning('', last.meaning)}; what had happened: {last.happened}."
    )
    return [began, finally_, *_refusals(chapter)]


def _meaning(transition: str, meaning: str) -> str:
    said = meaning.rstrip(".")
    if transition:
        return f"; {transition} was taken" + (f" ({said})" if said else "")
    return f" ({said})" if said else ""


def _refusals(chapter: Chapter) -> list[str]:
    """What did not happen instead, where the last decision had a choice."""
    last = chapter.last
    if not last.refused:
        return []
    refused = "; ".join(f"{name}, since {why}" for name, why in last.refused)
    return [f"What was refused then: {refused} ({last.known})."]


def _why_restarted(story: Story) -> list[str]:
    number = story.restarts_used + story.membership_restarts
    if number <= 0:
        return []
    restarts = [c for c in story.chapters if c.restarts_used or c.membership_restarts]
    told = list(tell_ends(restarts, 3, 3, _in_short, "… {} more", keep=lambda c: bool(c.dropped)))
    untold = number - sum(c.restarts_used + c.membership_restarts for c in restarts)
    if untold > 0:
        told.append(f"… {untold} more of which the journal does not tell")
    times = "once" if number == 1 else f"{number} times"
    return [f"It was restarted {times}:", *(f"  {line}" for line in told)]


def _in_short(chapter: Chapter) -> Iterator[str]:
    """One line: when, what, and how it went on."""
    parts = [_went_on(chapter)]
    if chapter.restarts_used:
        parts.append(f"{counted(chapter.restarts_used, 'restart')} spent")
    if chapter.dropped and chapter.membership_restarts:
        parts.append(f"formed anew {chapter.membership_restarts} ×")
    told = ", ".join(filter(None, parts))
    began = f"{clock(chapter.time)} {chapter.kind}: {chapter.title}"
    yield f"{began}; {told}" if told else began


def time_lost(story: Story) -> str:
    """Until the workers were healthy again, after all that happened to them."""
    lost = say_duration(sum(c.seconds or 0.0 for c in story.costs if c.healthy_again))
    return f"at least {lost}" if any(c.seconds is None for c in story.costs) else lost


def _went_on(chapter: Chapter) -> str:
    if chapter.healthy_after is not None:
        return f"healthy again after {say_duration(chapter.healthy_after)}"
    if chapter.cut:
        return "how it went on is not told"
    return "" if chapter.dropped else f"then {chapter.last.dest}"


def _sentence(text: str) -> str:
    return text.rstrip(".") + "."

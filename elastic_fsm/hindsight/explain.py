"""``elastic-fsm explain``: the story of a run, and the answer to "why?"."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.evidence import add_evidence, read_report
from elastic_fsm.hindsight.liveness import agent_of, agent_pid, read_up_to_now
from elastic_fsm.hindsight.story import Ending, Story, tell_ends
from elastic_fsm.hindsight.teller import Teller

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from elastic_fsm.hindsight.story import Chapter
    from elastic_fsm.journal_reader import JournalFile

__all__ = ["clock", "story_of"]


def story_of(path: Path) -> Story:
    """The story of a node's journal; raises :class:`BadInput` when there is none to read."""
    journal = read_up_to_now(path)
    report, doubt = read_report(journal.path)
    teller = Teller(journal)
    summary = journal.summary
    facts = _last_facts(journal)
    add_evidence(teller.chapters, journal.path.parent, report)
    story = Story(
        run_id=str(journal.header.get("run_id", "")),
        host=str(journal.header.get("host", "")),
        path=str(journal.path),
        began=summary.first_time,
        seconds=teller.spans[-1].end if teller.spans else 0.0,
        ending=_ending(journal, report),
        events=sum(summary.outcomes.values()),
        attempts=len(teller.attempts - {-1}),
        restarts_used=report.get("restarts_used", summary.restarts),
        max_restarts=facts.get("max_restarts", 0),
        membership_restarts=report.get("membership_restarts", summary.membership_restarts),
        chapters=teller.chapters,
        states=teller.states(),
        costs=teller.costs(),
        spans=teller.spans,
        workers=teller.workers,
        transitions=dict(summary.transitions),
        remarks=journal.remarks() + ([doubt] if doubt else []),
    )
    story.answer = _answer(story)
    return story


def _last_facts(journal: JournalFile) -> Mapping[str, Any]:
    return next((r["facts"] for r in reversed(journal.records) if "facts" in r), {})


def _ending(journal: JournalFile, report: Mapping[str, Any]) -> Ending:
    summary = journal.summary
    newest = journal.path.name == "journal.jsonl"
    alive = agent_of(journal)
    changed = None
    if summary.last_time is not None:
        changed = summary.last_time - (summary.now - summary.entered_at)
    return Ending(
        kind=_kind(alive, final=journal.final, reported=bool(report)),
        state=summary.state,
        worker_state=summary.worker_state,
        time=changed,
        exit_code=report.get("exit_code"),
        pid=agent_pid(journal.path.parent) if newest else journal.header.get("pid"),
        error=str(report.get("error", "")),
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
        return [f"The agent lost control in {state}, and ended the run: {ending.error}."]
    return _why_ended(story) if story.chapters else []


def _why_ended(story: Story) -> list[str]:
    chapter = story.chapters[-1]
    first, last = chapter.first, chapter.last
    code = "" if story.ending.exit_code is None else f", exit code {story.ending.exit_code}"
    began = (
        f"The run ended in {story.ending.state}{code}, because of this: "
        f"{_sentence(first.happened)} That was at {clock(first.time)}, in {first.source}"
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
    restarts = [c for c in story.chapters if c.restarts_used or c.membership_restarts]
    if not restarts:
        return []
    times = "once" if len(restarts) == 1 else f"{len(restarts)} times"
    told = tell_ends(restarts, 3, 3, lambda chapter: [chapter_in_short(chapter)], "… {} more")
    return [f"It was restarted {times}:", *(f"  {line}" for line in told)]


def chapter_in_short(chapter: Chapter) -> str:
    """One line: when, what, and how it went on."""
    if chapter.healthy_after is not None:
        went_on = f"healthy again after {say_duration(chapter.healthy_after)}"
    else:
        went_on = f"then {chapter.last.dest}"
    spent = f", {chapter.restarts_used} restart spent" if chapter.restarts_used else ""
    return f"{clock(chapter.time)} {chapter.kind}: {chapter.title}; {went_on}{spent}"


def _sentence(text: str) -> str:
    return text.rstrip(".") + "."

"""A story as text for a terminal: the answer first, then what happened, then what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.explain import clock, time_lost
from elastic_fsm.hindsight.story import tell_ends
from elastic_fsm.narration import counted, ranges
from elastic_fsm.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.hindsight.story import Chapter, Cost, Evidence, Line, Story

__all__ = ["render"]

# Of a long story, and of a long chapter, the beginning and the end are told; --json has all.
_FIRST, _LAST = 3, 8
_FIRST_LINES, _LAST_LINES = 8, 4
_LINES_OF_A_WORKER = 8
_SHORTEST = 0.0005
"""Seconds; passing through takes less."""


def render(story: Story) -> str:
    """All of it; ends with a line break."""
    parts = [
        _head(story),
        _section("Why", story.answer),
        _section("What happened", _chapters(story)),
        _section("Where the time went", _ledger(story)),
        _section("What it cost", _costs(story)),
        _section("About the journal", [*story.remarks, f"it is {story.path}"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    told = [f"  {part}".rstrip() for line in lines for part in printable(line).split("\n")]
    return "\n".join([title, *told]) if told else ""


def _head(story: Story) -> str:
    ending = story.ending
    state = {"agent died": f"the agent died in {ending.state or 'its first moment'}"}
    where = state.get(ending.kind, ending.state)
    code = "" if ending.exit_code is None else f", exit code {ending.exit_code}"
    anew = f"; formed anew {story.membership_restarts} ×" if story.membership_restarts else ""
    title = f"Run {story.run_id} on {story.host}: {where}{code}".replace("\n", " ")
    lasted = "of which the journal covers" if ending.unwritten else "for"
    return (
        f"{printable(title)}\n"
        f"  {clock(story.began, date=True)}, {lasted} {say_duration(story.seconds)}; "
        f"{counted(story.attempts, 'attempt')}; "
        f"{story.restarts_used} of {story.max_restarts} restarts spent{anew}; "
        f"{story.events} events"
    )


# -- what happened -----------------------------------------------------------------------------


def _chapters(story: Story) -> Iterator[str]:
    return tell_ends(story.chapters, _FIRST, _LAST, _chapter, keep=lambda c: bool(c.dropped))


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"{chapter.number}. {clock(chapter.time)}  {chapter.kind}: {chapter.title}"
    healed = chapter.at + (chapter.healthy_after or 0.0)
    until = [line for line in chapter.lines if chapter.healthy_after is None or line.at <= healed]
    yield from _lines(until, chapter)
    for evidence in chapter.evidence:
        yield from (f"   {text}" for text in _evidence(evidence))
    in_it = [e for e in chapter.exits if chapter.healthy_after is None or e["at"] <= healed]
    yield from (f"   {text}" for text in _exits(in_it))
    yield from (f"   {text}" for text in _outcome(chapter))
    yield from _lines(chapter.lines[len(until) :], chapter)
    yield from (f"   {text}" for text in _exits(chapter.exits[len(in_it) :]))


def _lines(lines: Sequence[Line], chapter: Chapter) -> Iterator[str]:
    told = tell_ends(lines, _FIRST_LINES, _LAST_LINES, lambda line: _line(line, chapter))
    yield from (f"   {text}" for text in told)


def _line(line: Line, chapter: Chapter) -> Iterator[str]:
    after = f"+{say_duration(line.at - chapter.at)}"
    if line.outcome != "step":
        yield f"{after:>9}  {line.happened}"
        return
    arrow = f"{line.source} -> {line.dest}" if line.entered else f"still {line.dest}"
    yield f"{after:>9}  {arrow} [{line.transition}] {line.meaning}".rstrip()
    indent = " " * 9
    if line is not chapter.first:
        yield f"{indent}    on: {line.happened}"
    decided = [", ".join(line.because)] if line.because else []
    decided += [f"not {name}, for {why}" for name, why in line.refused]
    if decided:
        yield f"{indent}    decided by: {'; '.join(decided)}"
        yield f"{indent}    known then: {line.known}"


def _exits(exits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Who else ended, in few words."""
    stopped = sorted({e["local_rank"] for e in exits if e["stopped_by_agent"]})
    done = sorted(
        {e["local_rank"] for e in exits if not e["exit_code"] and not e["stopped_by_agent"]}
    )
    if stopped:
        yield f"{'':>9}  stopped by the agent: local rank {ranges(stopped)}"
    if done:
        yield f"{'':>9}  ended with 0: local rank {ranges(done)}"


def _outcome(chapter: Chapter) -> Iterator[str]:
    if chapter.healthy_after is not None and chapter.kind != "start":
        spent = counted(chapter.restarts_used, "restart")
        yield f"{'':>9}  healthy again after {say_duration(chapter.healthy_after)}; {spent} spent"


def _evidence(evidence: Evidence) -> Iterator[str]:
    detail = evidence.traceback.splitlines() or list(evidence.lines)
    shown = detail[-_LINES_OF_A_WORKER:]
    if evidence.message or shown:
        said = f": {evidence.message}" if evidence.message else ""
        yield f"{'':>9}  rank {evidence.rank} {evidence.ended}{said}"
    yield from (f"{'':>9}  | {text}" for text in shown)


# -- what it cost ------------------------------------------------------------------------------


def _ledger(story: Story) -> Iterator[str]:
    total = sum(state.seconds for state in story.states) or 1.0
    width = max((len(state.state) for state in story.states), default=0)
    for state in story.states:
        if state.seconds < _SHORTEST:
            continue
        share = state.seconds / total
        bar = "█" * round(24 * share)
        yield (
            f"{state.state:<{width}}  {share:>6.1%}  {say_duration(state.seconds):>11}  "
            f"{counted(state.visits, 'visit'):<9} {bar}"
        )


def _costs(story: Story) -> Iterator[str]:
    yield from tell_ends(story.costs, _FIRST, _LAST, lambda cost: [_cost(cost, story)])
    if len(story.costs) > 1:
        restarts = counted(story.restarts_used, "restart")
        yield f"together: {time_lost(story)} until healthy again, {restarts}"


def _cost(cost: Cost, story: Story) -> str:
    spent = f", {counted(cost.restarts_used, 'restart')}" if cost.restarts_used else ""
    return f"{cost.chapter}. {cost.kind}: {_lasted(cost, story)}{spent}"


def _lasted(cost: Cost, story: Story) -> str:
    if cost.seconds is None:
        return "how long is not known (lines are missing)"
    following = "end" if cost.chapter == story.chapters[-1].number else "next"
    until = "healthy again" if cost.healthy_again else f"the {following}"
    return f"{say_duration(cost.seconds)} until {until}"

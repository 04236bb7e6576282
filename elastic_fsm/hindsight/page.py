"""A story as one page to send to somebody: no scripts, nothing from the network, light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.explain import clock, time_lost
from elastic_fsm.hindsight.gantt import gantt
from elastic_fsm.hindsight.lit_graph import lit_graph
from elastic_fsm.hindsight.page_style import STYLE
from elastic_fsm.hindsight.story import tell_ends
from elastic_fsm.narration import counted
from elastic_fsm.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.hindsight.story import Chapter, Cost, Evidence, Line, Story

__all__ = ["render_page"]

_SHOWN = {"agent died": "FAILED", "lost control": "UNKNOWN", "unclear": "UNKNOWN"}
_CLASSES = {"told to stop": "told", "membership change": "membership", "agent's error": "agent"}
# Many failures look alike; the timeline and the sums show all, the text some.
_FIRST, _LAST = 20, 60
_FIRST_LINES, _LAST_LINES = 30, 20
_LEFT_OUT = "… {} more, told by <code>--json</code>"


def render_page(stories: Sequence[Story]) -> str:
    """The whole page; the nodes of a run one after the other."""
    title = f"Run {stories[0].run_id}" if stories else "No run"
    body = "\n".join(part for story in stories for part in _story(story))
    return printable(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _story(story: Story) -> Iterator[str]:
    yield from _head(story)
    yield from _section("Timeline", f'<div class="wide">{gantt(story)}</div>{_legend()}')
    told = tell_ends(
        story.chapters,
        _FIRST,
        _LAST,
        lambda chapter: _chapter(chapter, story.anchor(chapter.number)),
        f'<p class="quiet">{_LEFT_OUT}</p>',
        keep=lambda chapter: bool(chapter.dropped),
    )
    yield from _section("What happened", "\n".join(told))
    yield from _section("Where the time went", "\n".join(_states(story)))
    if story.costs:
        yield from _section("What it cost", "\n".join(_costs(story)))
    yield from _section(
        "The machine, and the way through it", f"<div>{''.join(_machine(story))}</div>"
    )
    yield from _remarks(story)


def _legend() -> str:
    """What the colours of workers mean; a state's row says its name."""
    meanings = (
        ("HEALTHY", "alive, and in the end"),
        ("FAILED", "failed"),
        ("STOPPED", "stopped by the agent"),
        ("SUCCEEDED", "ended with 0"),
    )
    swatches = [
        f'<span class="swatch" style="background:var(--{colour})"></span>{text}'
        for colour, text in meanings
    ]
    return f'<p class="quiet legend">a worker: {" ".join(swatches)}</p>'


def _section(title: str, content: str) -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    yield content


# -- the head ----------------------------------------------------------------------------------


def _head(story: Story) -> Iterator[str]:
    ending = story.ending
    colour = _SHOWN.get(ending.kind, ending.worker_state or "INIT")
    state = ending.kind if ending.kind in _SHOWN else ending.state
    badge = f'<span class="badge" style="border-color:var(--{colour})">{escape(state)}</span>'
    yield f"<h1>Run {escape(story.run_id)} on {escape(story.host)} {badge}</h1>"
    yield f'<div class="quiet">began {clock(story.began, date=True)}</div>'
    yield '<div class="answer">'
    for sentence in story.answer:
        inner = ' class="inner"' if sentence.startswith(" ") else ""
        yield f"<p{inner}>{escape(sentence.strip())}</p>"
    yield "</div>"
    code = "-" if ending.exit_code is None else str(ending.exit_code)
    yield '<div class="numbers">'
    for name, value in (
        ("in the journal" if ending.unwritten else "lasted", say_duration(story.seconds)),
        ("exit code", code),
        ("attempts", str(story.attempts)),
        ("restarts spent", f"{story.restarts_used} of {story.max_restarts}"),
        ("formed anew", str(story.membership_restarts)),
        ("events", str(story.events)),
    ):
        yield f'<div><b>{escape(value)}</b><span class="quiet">{name}</span></div>'
    yield "</div>"


# -- what happened -----------------------------------------------------------------------------


def _chapter(chapter: Chapter, anchor: str) -> Iterator[str]:
    kind = _CLASSES.get(chapter.kind, chapter.kind.split()[0])
    yield f'<article id="{anchor}" class="{escape(kind)}">'
    yield (
        f"<h3>{chapter.number}. {escape(chapter.kind)}: {escape(chapter.title)} "
        f'<span class="quiet">{clock(chapter.time)}</span></h3>'
    )
    for evidence in chapter.evidence:
        yield from _evidence(evidence)
    yield '<ol class="steps">'
    yield from tell_ends(
        chapter.lines,
        _FIRST_LINES,
        _LAST_LINES,
        lambda line: [_line(line, chapter)],
        f'<li><span></span><span class="quiet">{_LEFT_OUT}</span></li>',
    )
    yield "</ol>"
    if chapter.healthy_after is not None and chapter.kind != "start":
        restarts = counted(chapter.restarts_used, "restart")
        spent = f", {restarts} spent" if chapter.restarts_used else ""
        after = say_duration(chapter.healthy_after)
        yield f'<p class="outcome">healthy again after {after}{spent}</p>'
    yield "</article>"


def _evidence(evidence: Evidence) -> Iterator[str]:
    text = evidence.traceback.rstrip() or "\n".join(evidence.lines)
    if evidence.message or text:
        said = f": {evidence.message}" if evidence.message else ""
        yield f"<p>rank {evidence.rank} {escape(evidence.ended + said)}</p>"
    if text:
        yield f"<pre>{escape(text)}</pre>"


def _line(line: Line, chapter: Chapter) -> str:
    when = f'<span class="when">+{say_duration(line.at - chapter.at)}</span>'
    if line.outcome != "step":
        return f"<li>{when}<span>{escape(line.happened)}</span></li>"
    arrow = f"{line.source} → {line.dest}" if line.entered else f"still {line.dest}"
    parts = [
        f"<b>{escape(arrow)}</b> <code>{escape(line.transition)}</code> {escape(line.meaning)}"
    ]
    if line is not chapter.first:
        parts.append(f"on: {escape(line.happened)}")
    parts += [f'<span class="why">{escape(text)}</span>' for text in _why(line)]
    return f"<li>{when}<span>{'<br>'.join(parts)}</span></li>"


def _why(line: Line) -> Iterator[str]:
    decided = [", ".join(line.because)] if line.because else []
    decided += [f"not {name}, for {why}" for name, why in line.refused]
    if decided:
        yield f"decided by: {'; '.join(decided)}"
        yield f"known then: {line.known}"


# -- sums --------------------------------------------------------------------------------------


def _states(story: Story) -> Iterator[str]:
    total = sum(state.seconds for state in story.states) or 1.0
    yield "<table><tr><th>state</th><th>shown as</th>" + "".join(
        f'<th class="number">{name}</th>' for name in ("time", "share", "visits")
    )
    yield '<th style="width:35%"></th></tr>'
    for state in story.states:
        colour = state.worker_state or "none"
        yield (
            f'<tr><td><span class="swatch" style="background:var(--{colour})"></span>'
            f"{escape(state.state)}</td><td>{escape(state.worker_state)}</td>"
            f'<td class="number">{say_duration(state.seconds)}</td>'
            f'<td class="number">{state.seconds / total:.1%}</td>'
            f'<td class="number">{state.visits}</td><td><div class="bar" '
            f'style="width:{state.seconds / total:.2%};background:var(--{colour})"></div></td></tr>'
        )
    yield "</table>"


def _costs(story: Story) -> Iterator[str]:
    yield '<table><tr><th></th><th>what</th><th class="number">until healthy again</th>'
    yield '<th class="number">restarts spent</th></tr>'
    left_out = f'<tr><td></td><td class="quiet" colspan="3">{_LEFT_OUT}</td></tr>'
    yield from tell_ends(story.costs, _FIRST, _LAST, lambda cost: [_cost(cost, story)], left_out)
    yield (
        f'<tr><td></td><td><b>together</b></td><td class="number"><b>{time_lost(story)}</b></td>'
        f'<td class="number"><b>{story.restarts_used}</b></td></tr></table>'
    )


def _cost(cost: Cost, story: Story) -> str:
    title = story.chapters[cost.chapter].title
    took = _took(cost)
    return (
        f'<tr><td><a href="#{story.anchor(cost.chapter)}">{cost.chapter}</a></td>'
        f"<td>{escape(cost.kind)}: {escape(title)}</td>"
        f'<td class="number">{took}</td><td class="number">{cost.restarts_used}</td></tr>'
    )


def _took(cost: Cost) -> str:
    if cost.seconds is None:
        return "not known"
    return say_duration(cost.seconds) if cost.healthy_again else "not again"


def _machine(story: Story) -> Iterator[str]:
    """The lit graph where it can be drawn; how often each transition was taken in any case."""
    svg = lit_graph(story.journal) if story.journal else None
    if svg:
        yield '<label class="quiet"><input type="checkbox" class="zoom"> full size</label>'
        yield f'<div class="wide graph">{svg}</div>'
    rows = sorted(story.transitions.items(), key=lambda item: -item[1])
    table = "".join(
        f'<tr><td><code>{escape(name)}</code></td><td class="number">{count}</td></tr>'
        for name, count in rows
    )
    opened = "" if svg else " open"
    yield (
        f"<details{opened}><summary>How often each transition was taken</summary><table><tr>"
        f'<th>transition</th><th class="number">times</th></tr>{table}</table></details>'
    )


def _remarks(story: Story) -> Iterator[str]:
    yield '<p class="quiet">' + "<br>".join(
        escape(text) for text in (*story.remarks, f"journal: {story.path}")
    )
    yield "</p>"

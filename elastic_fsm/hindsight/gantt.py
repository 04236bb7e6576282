"""The timeline: a row for each state and each worker, drawn as SVG with the page's colours.

A restart takes milliseconds and a run takes days, so a bar has a least width: what happened must
be seen, even where it does not count. Small bars that would touch become one, which shows the
worst of them and says how many they are; so the page stays small however often the machine moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from elastic_fsm.durations import say_duration
from elastic_fsm.failures import describe_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.hindsight.story import Story, Worker

__all__ = ["gantt"]

_WIDTH, _LEFT, _RIGHT = 1080, 120, 16
_TOP, _ROW, _BAR = 30, 22, 14
_LEAST, _LONG = 2.5, 6.0
_MOST_WORKERS = 32
# Of bars that become one this is shown, the first that is among them.
_WORST = ("FAILED", "UNKNOWN", "UNHEALTHY", "STOPPED")
_STEPS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600,
    1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Bar:
    """From and to in seconds, names of colours, and what it says when pointed at.

    ``cap`` is the colour of its last bit: how a worker ended says nothing of how it lived.
    ``count`` is how many have become one.
    """

    start: float
    end: float
    colour: str
    title: str
    cap: str = ""
    count: int = 1

    def said(self) -> str:
        """The title, of the first or worst of many."""
        return self.title if self.count == 1 else f"{self.count} in short; one: {self.title}"


def gantt(story: Story) -> str:
    """The timeline as an ``<svg>`` element."""
    rows = [*_state_rows(story), *_worker_rows(story)]
    height = _TOP + len(rows) * _ROW + 26
    total = story.seconds or 1.0
    inside = [
        *_grid(total, len(rows)),
        *_marks(story, total, len(rows)),
        *(line for number, row in enumerate(rows) for line in _row(number, *row, total)),
    ]
    label = f"Timeline of {len(rows)} rows over {say_duration(story.seconds)}"
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(label)}">\n' + "\n".join(inside) + "\n</svg>"
    )


def _x(seconds: float, total: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, seconds / total))


# -- what is in the rows -----------------------------------------------------------------------


def _state_rows(story: Story) -> Iterator[tuple[str, list[_Bar]]]:
    rows: dict[str, list[_Bar]] = {}
    for span in story.spans:
        shown = f", shown as {span.worker_state}" if span.worker_state else ""
        title = f"{span.state} for {say_duration(span.end - span.start)}{shown}"
        bar = _Bar(span.start, span.end, span.worker_state or "none", title)
        rows.setdefault(span.state, []).append(bar)
    yield from rows.items()


def _worker_rows(story: Story) -> Iterator[tuple[str, list[_Bar]]]:
    rows: dict[int, list[_Bar]] = {}
    for worker in story.workers:
        rows.setdefault(worker.local_rank, []).append(_life(worker, story.seconds))
    for rank in sorted(rows)[:_MOST_WORKERS]:
        yield f"local rank {rank}", rows[rank]
    if len(rows) > _MOST_WORKERS:
        yield f"… {len(rows) - _MOST_WORKERS} more", []


def _life(worker: Worker, now: float) -> _Bar:
    who = f"attempt {worker.attempt}" + (f", pid {worker.pid}" if worker.pid else "")
    who += "" if worker.start_known else ", its start is not told"
    if worker.end is None or worker.exit_code is None:
        return _Bar(worker.start, worker.end or now, "HEALTHY", f"{who}: its end is not told")
    how, cap = describe_exit(worker.exit_code), "FAILED" if worker.exit_code else "SUCCEEDED"
    if worker.stopped_by_agent:
        how, cap = f"stopped by the agent, {how}", "STOPPED"
    return _Bar(worker.start, worker.end, "HEALTHY", f"{who}: {how}", cap)


# -- how it is drawn ---------------------------------------------------------------------------


def _grid(total: float, rows: int) -> Iterator[str]:
    step = next((s for s in _STEPS if total / s <= 8), total / 8)
    bottom = _TOP + rows * _ROW
    for number in range(int(total / step) + 1):
        x = _x(number * step, total)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        text = say_duration(number * step)
        anchor = "end" if x > _WIDTH - 40 else "middle"
        place = f'x="{x:.1f}" y="{bottom + 17}" text-anchor="{anchor}"'
        yield f'<text class="tick" {place}>{text}</text>'


def _marks(story: Story, total: float, rows: int) -> Iterator[str]:
    """Numbers of chapters over the rows, as far as there is room for them."""
    last_line = last = -100.0
    for chapter in story.chapters:
        x = _x(chapter.at, total)
        y2 = _TOP + rows * _ROW
        if x - last_line < 4:
            continue
        last_line = x
        yield f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{y2}"/>'
        if x - last < 20:
            continue
        last = x
        yield (
            f'<a href="#{story.anchor(chapter.number)}"><title>{escape(chapter.title)}</title>'
            f'<circle class="dot" cx="{x:.1f}" cy="{_TOP - 15}" r="9"/>'
            f'<text x="{x:.1f}" y="{_TOP - 11}" text-anchor="middle">{chapter.number}</text></a>'
        )


def _row(number: int, name: str, bars: Sequence[_Bar], total: float) -> Iterator[str]:
    y = _TOP + number * _ROW
    if number % 2 == 0:
        yield (f'<rect class="row" x="0" y="{y}" width="{_WIDTH}" height="{_ROW}" opacity="0.6"/>')
    yield f'<text x="8" y="{y + 15}">{escape(name)}</text>'
    for x, width, bar in _merged(bars, total):
        yield _rect(x, y, width, bar.colour, bar.said())
        if bar.cap:
            cap = min(width, _LONG)
            yield _rect(x + width - cap, y, cap, bar.cap, bar.said())


def _rect(x: float, y: float, width: float, colour: str, title: str) -> str:
    top = y + (_ROW - _BAR) / 2
    return (
        f'<rect x="{x:.1f}" y="{top:g}" width="{width:.1f}" height="{_BAR}" rx="1.5" '
        f'style="fill:var(--{colour})"><title>{escape(title)}</title></rect>'
    )


def _merged(bars: Sequence[_Bar], total: float) -> Iterator[tuple[float, float, _Bar]]:
    """Bars with their places. Small ones that would touch are drawn as one; long ones leave a
    little room, so that a worker and the one after it are seen to be two."""
    pending: tuple[float, float, _Bar] | None = None
    for bar in bars:
        x = min(_x(bar.start, total), _WIDTH - _RIGHT - _LEAST)
        end = max(_x(bar.end, total), x + _LEAST)
        if end - x > _LONG:
            end -= 1.5
        elif pending and _join(pending, bar, x):
            pending = (pending[0], max(end, pending[1]), _both(pending[2], bar))
            continue
        if pending:
            yield pending[0], pending[1] - pending[0], pending[2]
        pending = (x, end, bar)
    if pending:
        yield pending[0], pending[1] - pending[0], pending[2]


def _join(pending: tuple[float, float, _Bar], bar: _Bar, x: float) -> bool:
    """Whether a small bar becomes one with that before it: it is like it and touches it, or there
    is no room for it."""
    before, end, other = pending
    alike = (bar.colour, bar.cap) == (other.colour, other.cap)
    return x - end < 2 if alike else x - before < _LEAST


def _both(one: _Bar, other: _Bar) -> _Bar:
    worst = min(one, other, key=_goodness)
    return replace(worst, count=one.count + other.count)


def _goodness(bar: _Bar) -> int:
    shown = bar.cap or bar.colour
    return _WORST.index(shown) if shown in _WORST else len(_WORST)

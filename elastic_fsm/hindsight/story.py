"""A run as a story: chapters, each begun by something that happened to it, and what they cost.

A chapter begins when something comes unasked and moves the machine (a worker fails, nodes change,
a signal), or when healthy workers are left, or the shown state turns bad, for another reason (a
timer). It is over when the workers are healthy again. This holds for any machine, since it goes
by the events' kinds and the shown ``WorkerState``, never by the names of states. Where lines were
dropped, that is a chapter, too: nothing before it is taken for the beginning of what comes after.

Times are wall time; ``at``, ``start`` and ``end`` are seconds since the first line, by the clock
that nobody sets.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from elastic_fsm.journal_reader import JournalFile

__all__ = [
    "Chapter",
    "Cost",
    "Ending",
    "Evidence",
    "Line",
    "Span",
    "StateTime",
    "Story",
    "Worker",
    "tell_ends",
]

T = TypeVar("T")


def tell_ends(
    items: Sequence[T],
    first: int,
    last: int,
    tell: Callable[[T], Iterable[str]],
    left_out: str = "… {} more, which --json tells",
    *,
    keep: Callable[[T], bool] = lambda item: False,
) -> Iterator[str]:
    """The first and the last of many, and those to ``keep``; of others how many are left out
    there: so much is told of a run of weeks."""
    skipped = 0
    for index, item in enumerate(items):
        if first <= index < len(items) - last and not keep(item):
            skipped += 1
            continue
        if skipped:
            yield left_out.format(skipped)
        skipped = 0
        yield from tell(item)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal, told. ``refused`` are (transition, why); so is ``because``.

    The ``outcome`` is that of the journal, or ``note``, or ``dropped`` for what is said in the
    place of dropped lines.
    """

    where: str
    time: float
    at: float
    happened: str
    outcome: str
    transition: str = ""
    source: str = ""
    dest: str = ""
    entered: bool = False
    meaning: str = ""
    because: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    known: str = ""
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a failed worker left; ``source`` is where its lines were found."""

    rank: int
    local_rank: int
    ended: str
    message: str = ""
    traceback: str = ""
    lines: tuple[str, ...] = ()
    source: str = ""


@dataclass(slots=True)
class Chapter:
    """What began with one event, or with ``dropped`` lines, as many as that.

    ``healthy_after``: seconds, None if it never was so again, or never ceased to be:
    ``stayed_healthy``; or if nobody knows. ``cut``: how it went on is not in the journal.
    """

    number: int
    kind: str
    title: str
    time: float
    at: float
    attempt: int
    lines: list[Line] = field(default_factory=list)
    exits: list[dict[str, Any]] = field(default_factory=list)
    healthy_after: float | None = None
    stayed_healthy: bool = False
    over: bool = False
    dropped: int = 0
    cut: bool = False
    restarts_used: int = 0
    membership_restarts: int = 0
    evidence: list[Evidence] = field(default_factory=list)

    def cut_off(self) -> None:
        """The journal tells no more of it."""
        self.cut = not self.over

    @property
    def first(self) -> Line:
        """The line that began it."""
        return self.lines[0]

    @property
    def last(self) -> Line:
        """The last change of state in it."""
        return next((line for line in reversed(self.lines) if line.entered), self.lines[0])


@dataclass(frozen=True, slots=True)
class Span:
    """A stay in a state."""

    state: str
    worker_state: str
    start: float
    end: float


@dataclass(slots=True)
class Worker:
    """A worker's life; ``end`` is None while nothing is known of its end.

    Where its start was dropped, ``start`` is the first moment after that, and not ``start_known``.
    """

    attempt: int
    local_rank: int
    pid: int | None
    start: float
    end: float | None = None
    exit_code: int | None = None
    stopped_by_agent: bool = False
    start_known: bool = True


@dataclass(frozen=True, slots=True)
class StateTime:
    """Wall time in one state."""

    state: str
    worker_state: str
    seconds: float
    visits: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one chapter cost: time until the workers were healthy again, and restarts.

    ``seconds`` is None where that is not known, since lines are missing.
    """

    chapter: int
    kind: str
    seconds: float | None
    healthy_again: bool
    restarts_used: int


@dataclass(frozen=True, slots=True)
class Ending:
    """Where it stands. ``kind``: ended, running, lost control, agent died, or unclear.

    ``unwritten``: it ended, which the report tells (also ``why``), after the journal did.
    """

    kind: str
    state: str
    worker_state: str
    time: float | None
    exit_code: int | None = None
    pid: int | None = None
    error: str = ""
    why: str = ""
    unwritten: bool = False


@dataclass(slots=True)
class Story:
    """One node's journal, told."""

    run_id: str
    host: str
    path: str
    began: float | None
    seconds: float
    ending: Ending
    events: int
    attempts: int
    restarts_used: int
    max_restarts: int
    membership_restarts: int
    chapters: list[Chapter] = field(default_factory=list)
    states: list[StateTime] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    transitions: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """What is wrong with the journal itself: a torn line, dropped files."""
    answer: list[str] = field(default_factory=list)
    """Why it ended, or stands where it does, in sentences."""
    journal: JournalFile | None = None
    """What is told, for pictures of it; no part of :meth:`to_dict`."""

    def anchor(self, chapter: int) -> str:
        """Where a chapter stands in a page, which may hold several nodes."""
        return f"{quote(PurePath(self.path).parent.name)}-{chapter}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for programs."""
        values = asdict(replace(self, journal=None))
        del values["journal"]
        return values

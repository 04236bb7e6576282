"""Makes the story of a journal: goes through it once, from line to line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.events import CATALOGUE
from elastic_fsm.hindsight.gaps import chapter_of_gap, facts_after
from elastic_fsm.hindsight.lines import tell
from elastic_fsm.hindsight.story import Chapter, Cost, Line, Span, StateTime, Worker
from elastic_fsm.hindsight.visits import visits_of
from elastic_fsm.tally import Restarts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.journal_reader import Gap, JournalFile

__all__ = ["Teller"]

_KINDS = {
    "membership_changed": "membership change",
    "action_failed": "agent's error",
    # What the agents say that look at their workers at intervals.
    "workers_failed": "failure",
    "workers_succeeded": "work done",
}
_BAD = {"UNHEALTHY", "FAILED", "UNKNOWN"}


class Teller:
    """Chapters, stays, and workers' lives, as the lines go by."""

    def __init__(self, journal: JournalFile) -> None:
        self.chapters: list[Chapter] = []
        self.spans: list[Span] = []
        self.workers: list[Worker] = []
        self._journal = journal
        self._machine = journal.header["machine"]
        self._zero = _first_moment(journal)
        self._at = 0.0
        self._state, self._shown = "", "INIT"
        self._stays: dict[str, str] = {}
        self._restarts = Restarts(0, 0)
        self._asked_to_start: float | None = None
        self._start_known = True
        for index, record in enumerate(journal.records):
            self._jump_at(index)
            self._take(index, record)
        self._jump_at(len(journal.records))
        self._finish()

    # -- one line ------------------------------------------------------------------------------

    def _take(self, index: int, record: Mapping[str, Any]) -> None:
        self._at = self._moment(record)
        line = tell(record, where=self._journal.where(index), at=self._at, machine=self._machine)
        if "event" not in record:
            self._remember(line)
            return
        self._count(Restarts.before(record))
        if record["outcome"] == "step" and record["entered"]:
            self._change(record, line)
        elif record["outcome"] == "failed" or _is_told(record):
            self._remember(line)
        self._count(Restarts.after(record))
        self._note_workers(record)
        self._state = record.get("dest") or record.get("state") or self._state

    def _moment(self, record: Mapping[str, Any]) -> float:
        facts = record.get("facts")
        now = facts["now"] if facts else record.get("monotonic", self._zero + self._at)
        return max(self._at, float(now) - self._zero)

    def _remember(self, line: Line) -> None:
        if self.chapters:
            self.chapters[-1].lines.append(line)

    def _count(self, restarts: Restarts) -> None:
        """What has been spent since the chapter began is its cost."""
        if self.chapters:
            chapter = self.chapters[-1]
            chapter.restarts_used += restarts.spent - self._restarts.spent
            chapter.membership_restarts += restarts.membership - self._restarts.membership
        self._restarts = restarts

    def _change(self, record: Mapping[str, Any], line: Line) -> None:
        """The machine has entered a state."""
        self._stay(record["source"])
        shown = record["worker_state"]
        kind = self._kind(record, shown)
        if kind:
            self._begin(kind, record, line)
        self._remember(line)
        chapter = self.chapters[-1]
        if shown == "HEALTHY" and not chapter.over:
            chapter.over = True
            if self._shown == "HEALTHY":
                chapter.stayed_healthy = True
            elif not chapter.dropped:
                chapter.healthy_after = self._at - chapter.at
        self._shown = shown

    def _kind(self, record: Mapping[str, Any], shown: str) -> str:
        """The kind of the chapter that begins here; empty when none does."""
        event = record["event"]["name"]
        worse = shown in _BAD and self._shown not in _BAD
        notice = event in CATALOGUE and CATALOGUE[event].notice
        left = bool(self.chapters) and self.chapters[-1].over and shown != "HEALTHY"
        if not (worse or notice or left):
            return "" if self.chapters else "start"
        if event == "worker_exited":
            return "failure" if shown in _BAD else "work done"
        if event == "signal_received":
            return "told to stop" if shown == "STOPPED" else "signal"
        return _KINDS.get(event, "trouble" if worse else "change")

    def _begin(self, kind: str, record: Mapping[str, Any], line: Line) -> None:
        self.chapters.append(
            Chapter(
                number=len(self.chapters),
                kind=kind,
                title=line.happened,
                time=line.time,
                at=self._at,
                attempt=record["facts"]["attempt"],
            )
        )

    # -- stays ---------------------------------------------------------------------------------

    def _stay(self, state: str) -> None:
        """A stay has ended."""
        start = self.spans[-1].end if self.spans else 0.0
        self.spans.append(Span(state, self._shown, start, self._at))
        self._stays.setdefault(state, self._shown)

    def _finish(self) -> None:
        summary = self._journal.summary
        if summary.state:
            self._at = max(self._at, summary.now - self._zero)
            self._stay(summary.state)

    # -- dropped lines -------------------------------------------------------------------------

    def _jump_at(self, index: int) -> None:
        for gap in self._journal.gaps:
            if gap.index == index:
                self._jump(gap)

    def _jump(self, gap: Gap) -> None:
        """Lines were dropped here: known are their sums, and where the machine was after them."""
        start, before = self._at, gap.before
        entered = max(start, before.entered_at - self._zero)
        if self._state:
            self._stay(self._state)
        self.spans.append(Span("(dropped)", "", start, entered))
        self._at = max(start, before.now - self._zero)
        self._begin_after(gap, start, moved=entered > start)
        self._state, self._shown = before.state, before.worker_state
        self._restarts = Restarts(before.restarts, before.membership_restarts)
        self._lose_sight(gap, start)
        self._asked_to_start, self._start_known = entered, False

    def _begin_after(self, gap: Gap, start: float, *, moved: bool) -> None:
        """A gap is a chapter: what it had to do with those beside it is not known."""
        if self.chapters:
            self.chapters[-1].cut_off()
        chapter = chapter_of_gap(
            self._journal,
            gap,
            number=len(self.chapters),
            at=(start, self._at),
            restarts=gap.before.restarts - self._restarts.spent,
            anew=gap.before.membership_restarts - self._restarts.membership,
        )
        chapter.over = gap.before.worker_state == "HEALTHY"
        chapter.stayed_healthy = chapter.over and not moved
        self.chapters.append(chapter)

    def _lose_sight(self, gap: Gap, at: float) -> None:
        """Who is alive after it has lived through it; of the others the end is not known."""
        facts = facts_after(self._journal, gap)
        attempt, alive = facts.get("attempt"), facts.get("alive", ())
        for worker in self.workers:
            lives = worker.attempt == attempt and worker.local_rank in alive
            if worker.end is None and not lives:
                worker.end = at

    # -- workers -------------------------------------------------------------------------------

    def _note_workers(self, record: Mapping[str, Any]) -> None:
        event, facts = record["event"], record["facts"]
        if record["outcome"] == "stale":
            return
        if "start_workers" in record.get("actions", ()):
            self._asked_to_start, self._start_known = self._at, True
        if event["name"] == "workers_started":
            for rank, pid in enumerate(event["data"]["pids"]):
                self._worker(facts["attempt"], rank, pid)
        elif event["name"] == "worker_exited":
            self._note_exit(facts["attempt"], event["data"])
        elif event["name"] == "workers_failed":
            self._note_failures(facts, event["data"])
        elif event["name"] == "workers_initialized":
            self._end_of_all()
            for rank in range(len(event["data"]["ranks"])):
                self._worker(facts["attempt"], rank, None)
        if event["name"] in ("workers_stopped", "workers_succeeded"):
            self._end_of_all()

    def _worker(self, attempt: int, rank: int, pid: int | None) -> Worker:
        """The worker of an attempt; one may end before all are reported as started."""
        for worker in reversed(self.workers):
            if worker.attempt != attempt:
                break
            if worker.local_rank == rank:
                return worker
        start = self._at if self._asked_to_start is None else self._asked_to_start
        self.workers.append(Worker(attempt, rank, pid, start, start_known=self._start_known))
        return self.workers[-1]

    def _note_exit(self, attempt: int, data: Mapping[str, Any]) -> None:
        worker = self._worker(attempt, data["local_rank"], data["pid"])
        worker.end, worker.exit_code = self._at, data["exit_code"]
        worker.stopped_by_agent = data["stopped_by_agent"]
        if self.chapters:
            self.chapters[-1].exits.append({**data, "at": self._at})

    def _end_of_all(self) -> None:
        """Nobody is left from now, also where nothing was told of each."""
        for worker in self.workers:
            if worker.end is None:
                worker.end = self._at

    def _note_failures(self, facts: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """What an agent says that looks at its workers: which have failed, all at once."""
        for rank, code in facts["exit_codes"].items():
            ended = {"pid": None, "exit_code": code, "stopped_by_agent": False, "reason": ""}
            lines = data.get("last_lines", {}).get(rank, [])
            self._note_exit(
                facts["attempt"], ended | {"local_rank": int(rank), "last_lines": lines}
            )

    # -- sums ----------------------------------------------------------------------------------

    def states(self) -> list[StateTime]:
        """Wall time by state, the longest first; dropped lines count, too."""
        seconds, visits = self._journal.summary.seconds_in(), visits_of(self._journal)
        shown = [
            StateTime(s, self._stays.get(s, ""), spent, visits[s]) for s, spent in seconds.items()
        ]
        return sorted(shown, key=lambda s: -s.seconds)

    def costs(self) -> list[Cost]:
        """What each chapter cost that was not the start or the good end, or cost nothing."""
        free = ("start", "work done")
        return [
            Cost(c.number, c.kind, self._cost(c), c.healthy_after is not None, c.restarts_used)
            for c in self.chapters
            if c.kind not in free and not c.stayed_healthy
        ]

    def _cost(self, chapter: Chapter) -> float | None:
        """Until the workers were healthy again; else until the next chapter, or the end."""
        if chapter.dropped or chapter.cut:
            return None
        if chapter.healthy_after is not None:
            return chapter.healthy_after
        following = self.chapters[chapter.number + 1 :]
        return (following[0].at if following else self._at) - chapter.at


def _first_moment(journal: JournalFile) -> float:
    if journal.gaps and journal.gaps[0].index == 0:  # the sums go back to it
        before = journal.gaps[0].before
        return before.now - sum(before.seconds_in().values())
    for record in journal.records:
        if "facts" in record:
            return float(record["facts"]["entered_at"])
    return 0.0


def _is_told(record: Mapping[str, Any]) -> bool:
    """A step that changed no state is told, unless it is only one more worker's good end; so is a
    command that failed, whatever came of it."""
    event = record["event"]["name"]
    is_step = record["outcome"] == "step" and event != "worker_exited"
    return bool(is_step or event == "command_failed")

"""A journal as a layer over its machine: where the run is, which way it took, where time went."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from elastic_fsm.graph.model import Layer, Look, Mark

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from elastic_fsm.graph.model import Arrow, Diagram
    from elastic_fsm.journal_reader import JournalFile

    Key = tuple[str, str]

__all__ = ["layer_of_run"]


def layer_of_run(diagram: Diagram, journal: JournalFile) -> Layer:
    """The run told by a journal, up to its last line; what it did not touch is faint."""
    current = journal.summary.state or diagram.initial
    seconds = journal.summary.seconds_in()
    nodes = {state: Mark(Look.VISITED, _duration(spent)) for state, spent in seconds.items()}
    final = current in diagram.nodes and diagram.nodes[current].final
    nodes[current] = Mark(Look.CURRENT, "" if final else _duration(seconds.get(current, 0.0)))
    return Layer(
        nodes=nodes,
        arrows=_arrows(diagram, journal),
        otherwise=Mark(Look.FAINT),
        title=_title(journal, current, final=final),
    )


def _title(journal: JournalFile, current: str, *, final: bool) -> str:
    header, events = journal.header, journal.summary.seq
    where = f"ended in {current}" if final else f"in {current}"
    count = f"{events} line{'s' * (events != 1)} of its journal"
    return f"run {header.get('run_id')} on {header.get('host')}: {where} after {count}"


def _arrows(diagram: Diagram, journal: JournalFile) -> dict[Key, Mark]:
    steps = [record for record in journal.records if record.get("outcome") == "step"]
    counts = Counter(_key(diagram, step) for step in steps)
    marks = {key: Mark(Look.VISITED, f"×{count}") for key, count in counts.items()}
    marks |= _of_dropped_lines(diagram, journal, counts)
    if steps:
        last = _key(diagram, steps[-1])
        marks[last] = Mark(Look.LAST, f"{marks[last].note}, last")
    return marks


def _key(diagram: Diagram, step: Mapping[str, Any]) -> Key:
    """The arrow of a step: the one that names its source, else the one from ``any``."""
    edge = diagram.edges.get(step["transition"])
    named = edge is None or step["source"] in edge.sources
    return step["transition"], step["source"] if named else "any"


def _of_dropped_lines(
    diagram: Diagram, journal: JournalFile, counts: Counter[Key]
) -> dict[Key, Mark]:
    """Of lines that are gone the journal keeps how often each transition was taken, not from
    where; all arrows of such a transition that start where the run was show its whole count."""
    been = journal.summary.seconds_in()
    seen: Counter[str] = Counter()
    for (name, _), count in counts.items():
        seen[name] += count
    totals = journal.summary.transitions
    return {
        (arrow.edge.name, arrow.source): Mark(Look.VISITED, f"×{totals[arrow.edge.name]} in all")
        for arrow in diagram.arrows()
        if totals.get(arrow.edge.name, 0) > seen[arrow.edge.name] and _leaves_one_of(arrow, been)
    }


def _leaves_one_of(arrow: Arrow, states: Collection[str]) -> bool:
    sources = arrow.edge.others if arrow.source == "any" else (arrow.source,)
    return any(source in states for source in sources)


def _duration(seconds: float) -> str:
    """No more digits than a glance needs."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"

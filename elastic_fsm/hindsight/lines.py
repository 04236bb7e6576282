"""One line of the journal in words: what happened, what was decided, and what decided it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import signal_name
from elastic_fsm.hindsight.story import Line
from elastic_fsm.narration import because, ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["happened", "tell"]

_UNLESS = "unless "


def tell(record: Mapping[str, Any], *, where: str, at: float, machine: Mapping[str, Any]) -> Line:
    """A record as a line of the story; ``machine`` is the declaration, for its docs."""
    if "note" in record:
        return Line(where, record["time"], at, str(record["note"]), "note")
    taken = record.get("transition", "")
    declared = machine["transitions"].get(taken) or {}
    verdicts = record.get("verdicts", [])
    return Line(
        where=where,
        time=record["time"],
        at=at,
        happened=happened(record),
        outcome=record["outcome"],
        transition=taken,
        source=record.get("source", record.get("state", "")),
        dest=record.get("dest", ""),
        entered=record.get("entered", False),
        meaning=str(declared.get("doc", "")),
        because=tuple(_held(c) for t, c, held in verdicts if held and t == taken),
        refused=tuple((t, _failed(c)) for t, c, held in verdicts if not held),
        known=_known(record["facts"]) if verdicts else "",
        actions=tuple(record.get("actions", ())),
    )


def happened(record: Mapping[str, Any]) -> str:
    """The event as a clause; of one that somebody else posted, perhaps only its name."""
    try:
        text = because(record)
    except (LookupError, TypeError, ValueError, AttributeError):
        text = str(record["event"]["name"])
    if record["outcome"] == "failed":
        return f"{text}, and a condition raised: {record.get('error', '')}"
    return text


def _held(condition: str) -> str:
    if condition.startswith(_UNLESS):
        return f"{condition.removeprefix(_UNLESS)} did not hold"
    return f"{condition} held"


def _failed(condition: str) -> str:
    if condition.startswith(_UNLESS):
        return f"{condition.removeprefix(_UNLESS)} held"
    return f"{condition} did not hold"


def _known(facts: Mapping[str, Any]) -> str:
    """The facts that conditions look at, in words."""
    alive = ranges(facts["alive"])
    parts = [f"alive: {'local rank ' + alive if alive else 'nobody'}"]
    if facts["exit_codes"]:
        parts.append(f"ended: {_endings(facts)}")
    parts.append(f"restarts left: {facts['restarts_left']} of {facts['max_restarts']}")
    if facts["membership_restarts"]:
        parts.append(f"formed anew: {facts['membership_restarts']}")
    return "; ".join(parts)


def _endings(facts: Mapping[str, Any]) -> str:
    """``3 with 1 / 0-2 by SIGTERM when stopped``: the same endings together."""
    stopped = set(facts["stopped"])
    groups: dict[str, list[int]] = {}
    for rank, code in facts["exit_codes"].items():
        how = f"by {signal_name(code)}" if code < 0 else f"with {code}"
        how += " when stopped" if int(rank) in stopped else ""
        groups.setdefault(how, []).append(int(rank))
    return " / ".join(f"{ranges(sorted(ranks))} {how}" for how, ranks in groups.items())

"""What the report of a run tells to whoever reads its journal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from elastic_fsm.journal_shape import INTEGER, STATE, TEXT, fault_of, maybe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["final_state", "read_report"]

_CAUSE = {
    "rank": INTEGER,
    "local_rank": INTEGER,
    "exit_code": INTEGER,
    "message": TEXT,
    "traceback": TEXT,
    "stderr_tail": [TEXT],
}
_REPORT = {
    "state?": STATE,
    "final_state?": TEXT,
    "why?": TEXT,
    "exit_code?": maybe(INTEGER),
    "restarts_used?": INTEGER,
    "membership_restarts?": INTEGER,
    "error?": TEXT,
    "attempts?": [{"attempt": INTEGER, "causes": [_CAUSE]}],
}


def read_report(journal: Path) -> tuple[dict[str, Any], str]:
    """The report that belongs to a journal (``report.2.json`` to ``journal.2.jsonl``), or {}; and
    what is wrong with one that cannot be used."""
    path = journal.with_name(journal.stem.replace("journal", "report", 1) + ".json")
    try:
        report = json.loads(path.read_bytes())
    except OSError:
        return {}, ""
    except (ValueError, RecursionError):
        return {}, f"left out, for it cannot be used: {path}: it is not JSON"
    fault = fault_of(report, _REPORT)
    return ({}, f"left out, for it cannot be used: {path}: {fault}") if fault else (report, "")


def final_state(report: Mapping[str, Any], machine: Mapping[str, Any]) -> str:
    """The final state to which the machine came by its report, also where the journal could not be
    written any more; empty if it came to none, for then the agent showed UNKNOWN."""
    state = report.get("final_state", "")
    is_final = bool((machine["states"].get(state) or {}).get("final"))
    return state if is_final and report.get("state") != "UNKNOWN" else ""

"""``elastic-fsm status``: the runs below a folder, one line for each node of each.

It is for looking often, so it reads only the first line of a journal and its end (all of it only
when the end says nothing), and imports nothing that is slow to load.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from elastic_fsm.durations import say_duration
from elastic_fsm.hindsight.liveness import agent_is_alive, agent_pid
from elastic_fsm.hindsight.reported import final_state, read_report
from elastic_fsm.journal_reader import (
    DEFAULT_RUNS,
    has_journal,
    node_folders,
    parse_header,
    parse_record,
)
from elastic_fsm.printable import printable
from elastic_fsm.problems import COMMAND_LINE, BadInput
from elastic_fsm.tally import Restarts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["NodeStatus", "render", "status_of", "to_json"]

# A line is less than a thousand bytes for a small group, and grows with its size.
_TAIL = 256 * 1024


@dataclass(slots=True)
class NodeStatus:
    """One node of one run.

    ``condition`` is ``running``, ``ended`` (of a run whose journal ends before it did, that is what
    its report tells), ``lost control`` (it ended outside of its machine),
    ``agent died``, ``unclear`` where the file system cannot tell a live agent from a dead one, or
    ``unreadable``. ``problem`` says what is wrong with the journal.

    ``since`` is the wall time of the last change of state, if it was written; ``workers_alive`` is
    None when nobody is there to know.
    """

    run_id: str
    node: str
    path: str
    condition: str
    state: str = ""
    worker_state: str = ""
    began: float | None = None
    since: float | None = None
    workers_alive: int | None = None
    workers: int = 0
    restarts_used: int = 0
    max_restarts: int = 0
    membership_restarts: int = 0
    pid: int | None = None
    problem: str = ""


def status_of(folder: Path | None = None) -> list[NodeStatus]:
    """Every node of every run below ``folder``, the newest run last.

    ``folder`` may also be one run or one node. Raises :class:`BadInput` when it holds no run.
    """
    base = DEFAULT_RUNS if folder is None else folder
    if has_journal(base):
        found = [_status_of(base)]
    elif node_folders(base):
        found = _run_status(base)
    else:
        found = [status for run in _runs(base) for status in _run_status(run)]
    if not found:
        raise BadInput.of(
            f"there is no run in {base}",
            where=COMMAND_LINE,
            fix="give the folder that holds them (run_dir of the run)",
        )
    return sorted(found, key=lambda s: (s.began or 0.0, s.run_id, s.node))


def _runs(base: Path) -> list[Path]:
    return [path for path in base.iterdir() if not path.is_symlink()] if base.is_dir() else []


def _run_status(run: Path) -> list[NodeStatus]:
    """The nodes of a run; one line for all where nobody may look into its folder."""
    if not run.is_dir():
        return []
    try:
        folders = sorted(run.resolve().iterdir())
    except OSError as error:
        return [_unreadable(run, run.name, "-", _said(error))]
    return [_status_of(node) for node in folders if has_journal(node) or _is_closed(node)]


def _is_closed(folder: Path) -> bool:
    """Whether this user may not look what is in it: it may well be a node."""
    return folder.is_dir() and not os.access(folder, os.X_OK)


def _status_of(node: Path) -> NodeStatus:
    """A bad journal is one line among others."""
    try:
        return _node_status(node)
    except BadInput as error:
        problem = error.problems[0]
        said = f"{problem.where}: {problem.what}"
    except OSError as error:
        said = _said(error)
    return _unreadable(node, node.parent.name, node.name, said)


def _unreadable(folder: Path, run_id: str, node: str, problem: str) -> NodeStatus:
    return NodeStatus(run_id, node, str(folder), "unreadable", problem=problem)


def _said(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}"


def _node_status(node: Path) -> NodeStatus:
    header, first = _beginning(node)
    last, changed, fault = _end(node)
    facts = last.get("facts", {})
    alive = agent_is_alive(node)
    state = last.get("dest") or last.get("state", "")
    machine = header.get("machine", {"states": {}})
    final = bool((machine["states"].get(state) or {}).get("final"))
    report = {} if final or alive else read_report(node / "journal.jsonl")[0]
    condition = _condition(alive, final=final, reported=_has_report(node))
    restarts = Restarts.after(last) if last else Restarts(0, 0)
    status = NodeStatus(
        run_id=header.get("run_id", node.parent.name),
        node=node.name,
        path=str(node),
        condition=condition,
        state=state,
        worker_state=last.get("worker_state", ""),
        began=first,
        since=changed,
        workers_alive=_workers_alive(condition, facts),
        workers=facts.get("local_world_size", 0),
        restarts_used=restarts.spent,
        max_restarts=facts.get("max_restarts", 0),
        membership_restarts=restarts.membership,
        pid=agent_pid(node),
        problem=f"the last line cannot be used: {fault}" if fault else "",
    )
    if reached := final_state(report, machine):
        _end_by_report(status, report, reached)
    return status


def _end_by_report(status: NodeStatus, report: Mapping[str, Any], state: str) -> None:
    """The run ended after its journal did; when is not known."""
    where = f", in {status.state}" if status.state else ""
    status.problem = status.problem or f"the journal ends before the run did{where}"
    status.condition, status.workers_alive = "ended", 0
    status.state, status.worker_state, status.since = state, report.get("state", ""), None
    status.restarts_used = report.get("restarts_used", status.restarts_used)
    status.membership_restarts = report.get("membership_restarts", status.membership_restarts)


def _condition(alive: bool | None, *, final: bool, reported: bool) -> str:
    if alive:
        return "running"
    if final or reported:
        return "ended" if final else "lost control"
    return "unclear" if alive is None else "agent died"


def _workers_alive(condition: str, facts: dict[str, Any]) -> int | None:
    if condition in ("ended", "lost control"):
        return 0
    return len(facts.get("alive", ())) if condition == "running" else None


def _has_report(node: Path) -> bool:
    """An agent that reported has ended, also where its machine could not help any more."""
    return (node / "report.json").is_file()


def _beginning(node: Path) -> tuple[dict[str, Any], float | None]:
    """The header, and the time of the first event."""
    for name in ("journal-0.jsonl", "journal.jsonl"):
        try:
            with (node / name).open("rb") as file:
                line, following = file.readline(), file.readline()
        except FileNotFoundError:
            continue
        if line.endswith(b"\n"):
            first, fault = parse_record(following)
            return parse_header(line, node / name), None if fault else first["time"]
    return {}, None


def _end(node: Path) -> tuple[dict[str, Any], float | None, str]:
    """The last event that says where the machine is, the time of the last change of state, and
    what is wrong with a line after it."""
    found = _last_event(_last_lines(node, _TAIL))
    return found if found[0] else _last_event(_last_lines(node, sys.maxsize))


def _last_event(lines: list[bytes]) -> tuple[dict[str, Any], float | None, str]:
    wrong = ""
    for line in reversed(lines):
        record, fault = parse_record(line)
        if fault:
            wrong = wrong or ("" if "format" in record else fault)
        elif record.get("outcome") in ("step", "ignored", "failed"):
            facts = record["facts"]
            stayed = 0.0 if record.get("entered") else facts["now"] - facts["entered_at"]
            return record, record["time"] - stayed, wrong
    return {}, None, wrong


def _last_lines(node: Path, most: int) -> list[bytes]:
    """Whole lines at the end of the newest file, within ``most`` bytes; of the one before it while
    it has none yet."""
    numbered = sorted(node.glob("journal-*.jsonl"), key=lambda path: (len(path.name), path.name))
    lines: list[bytes] = []
    for path in (node / "journal.jsonl", *reversed(numbered)):
        try:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - most))
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            continue
        if len(lines) > 1:
            break
    return lines


# -- as text -----------------------------------------------------------------------------------

_HEAD = ("RUN", "NODE", "STATE", "SINCE", "WORKERS", "RESTARTS", "PID")


def render(nodes: Sequence[NodeStatus], *, now: float | None = None) -> str:
    """A table, the newest run last: that is where the eyes are in a terminal."""
    moment = time.time() if now is None else now
    rows = [_HEAD, *(_row(node, moment) for node in nodes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += [_one_line(f"{n.run_id} {n.node}: {n.problem}") for n in nodes if n.problem]
    return "".join(f"{line}\n" for line in lines)


def _one_line(text: str) -> str:
    return printable(" ".join(text.splitlines()))


def _row(node: NodeStatus, now: float) -> tuple[str, ...]:
    alive = "-" if node.workers_alive is None else str(node.workers_alive)
    return (
        _one_line(node.run_id),
        _one_line(node.node),
        _one_line(_state(node)),
        _since(node.since, now),
        f"{alive}/{node.workers}",
        f"{node.restarts_used}/{node.max_restarts}",
        str(node.pid or "-") if node.condition in ("running", "unclear") else "-",
    )


def _state(node: NodeStatus) -> str:
    if node.condition == "agent died":
        return f"agent died in {node.state or 'its first moment'}"
    if node.condition == "lost control":
        return f"UNKNOWN, lost control in {node.state}"
    if node.condition == "unreadable":
        return "unreadable"
    if node.condition == "unclear":
        return f"{node.state}, or agent died"
    return node.state or "beginning"


def _since(since: float | None, now: float) -> str:
    if since is None:
        return "-"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    return f"{stamp} ({say_duration(max(0.0, round(now - since)))} ago)"


def to_json(nodes: Sequence[NodeStatus]) -> str:
    """The same for programs."""
    return json.dumps([asdict(node) for node in nodes], indent=1)

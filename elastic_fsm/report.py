"""How a run ended: causes first, consequences apart; as data for ``report.json`` and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastic_fsm.failures import describe_exit, signal_name
from elastic_fsm.group import WorkerState
from elastic_fsm.narration import counted, ranges
from elastic_fsm.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from elastic_fsm.agent import Agent
    from elastic_fsm.failures import ProcessFailure
    from elastic_fsm.group import RunResult, WorkerExit
    from elastic_fsm.history import Attempt

__all__ = ["advice", "make_report", "render"]

_WIDTH = 78
_LONGEST_LINE = 500
# What a screen shows of each; the file has all.
_MOST_CAUSES = 4
_MOST_ATTEMPTS = 10
_STOPPED = "stopped by the agent"
_KILLED = "killed by the agent (SIGKILL)"
_SAME_SIGNAL = "ended by the same signal"
_MAY_BE_TOLD_TO_STOP = (WorkerState.STOPPED, WorkerState.UNKNOWN)


def make_report(
    agent: Agent,
    result: RunResult,
    *,
    run_id: str,
    host: str,
    why: str,
    failed_commands: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What ``report.json`` holds of a run that has ended: plain values only.

    ``why`` is the last change of state, in words; ``failed_commands`` are those of rules.
    """
    return {
        "run_id": run_id,
        "host": host,
        "state": result.state.value,
        "final_state": _final_state(agent, result),
        "exit_code": result.exit_code,
        "why": why,
        "error": agent.error,
        "signal": agent.last_signal if result.state in _MAY_BE_TOLD_TO_STOP else "",
        "restarts_used": agent.restarts_used,
        "max_restarts": agent.group.spec.max_restarts,
        "membership_restarts": agent.membership_restarts,
        "failed_commands": list(failed_commands),
        "attempts": [_attempt(attempt, host) for attempt in agent.history],
    }


def _final_state(agent: Agent, result: RunResult) -> str:
    """The machine's, unless the agent lost control before it reached one."""
    state = agent.machine.state
    return state.name if state.final else result.state.value


def _attempt(attempt: Attempt, host: str) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "world_size": attempt.world_size,
        "started": attempt.started,
        "ended": attempt.ended,
        "causes": [_cause(rank, f, host) for rank, f in attempt.failures.items()],
        "consequences": [_consequence(e) for e in attempt.exits if _is_consequence(e, attempt)],
        "succeeded": [e.global_rank for e in attempt.exits if e.succeeded],
    }


def _is_consequence(ended: WorkerExit, attempt: Attempt) -> bool:
    return not ended.succeeded and ended.global_rank not in attempt.failures


def _cause(rank: int, failure: ProcessFailure, host: str) -> dict[str, Any]:
    return {
        "rank": rank,
        "local_rank": failure.local_rank,
        "host": host,
        "pid": failure.pid,
        "exit_code": failure.exitcode,
        "signal": failure.signal_name(),
        "time": failure.timestamp,
        "message": failure.message,
        "traceback": failure.traceback,
        "error_file": failure.error_file,
        "stderr_tail": failure.stderr_tail,
    }


def _consequence(ended: WorkerExit) -> dict[str, Any]:
    return {
        "rank": ended.global_rank,
        "local_rank": ended.local_rank,
        "pid": ended.pid,
        "stopped_by_agent": ended.stopped_by_agent,
        "exit_code": ended.exit_code,
        "signal": signal_name(ended.exit_code),
        "time": ended.time,
    }


def advice(agent: Agent, result: RunResult) -> str:
    """What the user may do about a failure, if it was the budget that ended the run."""
    allowed = agent.group.spec.max_restarts
    if (
        result.state is not WorkerState.FAILED
        or not result.failures  # of the agent's own, or of the nodes': a restart is no help
        or agent.restarts_used < allowed
    ):
        return ""
    return f"to restart the group after such a failure: spec.max_restarts={max(1, 2 * allowed)}"


# -- as text -----------------------------------------------------------------------------------


def render(
    report: Mapping[str, Any], *, places: Sequence[tuple[str, str]] = (), hint: str = ""
) -> str:
    """The report as text for a terminal: one screen, the cause at the top.

    ``places`` are labelled paths to end with; ``hint`` says what the user may do.
    """
    *earlier, last = report["attempts"] or [{"causes": [], "consequences": []}]
    lines = ["=" * _WIDTH, _headline(report), *_reason(report, last)]
    if report["state"] != WorkerState.SUCCEEDED.value:
        lines += [*_causes(last["causes"]), *_consequences(last["consequences"])]
    lines += _earlier(earlier)
    if hint:
        lines += ["", f"  {hint}"]
    if places:
        lines += ["", *(f"  {label:<9}{path}" for label, path in places)]
    return printable("\n".join([*lines, "=" * _WIDTH]))


def _headline(values: Mapping[str, Any]) -> str:
    return (
        f"{values['final_state']}: run {values['run_id']}, exit code {values['exit_code']}, "
        f"{counted(len(values['attempts']), 'attempt')}, "
        f"{values['restarts_used']} of {values['max_restarts']} restarts used"
    )


def _reason(values: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[str]:
    """Why it ended, where no worker is to blame."""
    if values["error"]:
        yield f"  the agent's own code failed: {values['error']}"
    if values["state"] == WorkerState.STOPPED.value and values["signal"]:
        yield f"  told to stop by {values['signal']}"
    elif values["state"] != WorkerState.SUCCEEDED.value and not last["causes"]:
        yield f"  {values['why']}"


def _earlier(attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each attempt before the last, so that a good end does not hide them."""
    if attempts:
        yield ""
    if older := attempts[:-_MOST_ATTEMPTS]:
        yield f"  {len(older)} attempts before these: in the report file"
    for attempt in attempts[-_MOST_ATTEMPTS:]:
        causes = sorted(attempt["causes"], key=lambda cause: float(cause["time"]))
        yield f"  attempt {attempt['attempt']}: " + (_brief(causes[0]) if causes else "re-formed")


def _brief(cause: Mapping[str, Any]) -> str:
    text = f"rank {cause['rank']} {describe_exit(cause['exit_code'])}"
    gist = _gist(cause)
    return f"{text}: {gist}" if gist else text


def _causes(causes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kinds = _alike(causes)
    for same in kinds[:_MOST_CAUSES]:
        yield from ("", *_told(same))
    if rest := [cause["rank"] for same in kinds[_MOST_CAUSES:] for cause in same]:
        yield ""
        yield f"  failed otherwise: {_ranks(rest)}; how is in the report file"


def _told(same: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Workers that failed in the same way, with the words of the first."""
    first = same[0]
    yield f"  cause: {_who(same)} {describe_exit(first['exit_code'])}"
    if first["message"]:
        yield f"    {_first_line(first['message'])}"
    detail = first["traceback"].splitlines() or first["stderr_tail"]
    if detail:
        yield "    its traceback:" if first["traceback"] else "    its last lines of stderr:"
        yield from (f"    | {_shortened(line)}" for line in detail)


def _alike(causes: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Causes that say the same, together; in the order of the first of each."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for cause in sorted(causes, key=lambda c: float(c["time"])):
        groups.setdefault((cause["exit_code"], _gist(cause)), []).append(cause)
    return list(groups.values())


def _gist(cause: Mapping[str, Any]) -> str:
    tail = cause["stderr_tail"]
    return _first_line(cause["message"] or (tail[-1] if tail else ""))


def _first_line(text: str) -> str:
    """Of a message of many lines; the traceback below holds the others."""
    return _shortened(text.partition("\n")[0])


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …"


def _who(same: Sequence[Mapping[str, Any]]) -> str:
    first = same[0]
    if len(same) == 1:
        return (
            f"rank {first['rank']} (local rank {first['local_rank']}) on {first['host']}"
            f"{_with_pid(first)},"
        )
    ranks = ranges(sorted(cause["rank"] for cause in same))
    return (
        f"{len(same)} ranks, {ranks}, on {first['host']} "
        f"(first: rank {first['rank']}{_with_pid(first)}), each"
    )


def _with_pid(cause: Mapping[str, Any]) -> str:
    return f", pid {cause['pid']}" if cause["pid"] else ""


def _consequences(ended: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if ended:
        yield ""
    fates = [(_fate(one), one["rank"]) for one in ended]
    for how in (_STOPPED, _KILLED, _SAME_SIGNAL):
        if ranks := [rank for fate, rank in fates if fate == how]:
            yield f"  {how}: {_ranks(ranks)}"


def _fate(ended: Mapping[str, Any]) -> str:
    """Who is killed may not have saved its work, which the user should know."""
    if not ended["stopped_by_agent"]:
        return _SAME_SIGNAL
    return _KILLED if ended["signal"] == "SIGKILL" else _STOPPED


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) != 1)} {ranges(sorted(ranks))}"

"""What came of a scenario, as plain values for programs: ``simulate --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.scenario.playing import Played
    from elastic_fsm.scenario.script import Script

__all__ = ["as_data"]


def as_data(script: Script, runs: Mapping[str, Played]) -> dict[str, Any]:
    """The runs by name of the machine; an empty name is the user's own. Times are in seconds."""
    return {
        "scenario": script.name,
        "runs": [{"machine": name or None, **_run(played)} for name, played in runs.items()],
    }


def _run(played: Played) -> dict[str, Any]:
    agent = played.run.agent
    return {
        "outcome": {
            "state": agent.machine.state.name,
            "exit_code": played.result.exit_code if played.result else None,
            "ending": played.ending or "the run ended",
            "error": agent.error or None,
        },
        "seconds": played.duration,
        "restarts": {
            "used": agent.restarts_used,
            "max": agent.group.spec.max_restarts,
            "membership": agent.membership_restarts,
        },
        "seconds_in": played.time_in_states(),
        "path": [_step(step) for step in played.steps],
    }


def _step(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at": record["facts"]["now"],
        "transition": record["transition"],
        "source": record["source"],
        "dest": record["dest"],
        "event": record["event"]["name"],
        "data": dict(record["event"]["data"]),
    }

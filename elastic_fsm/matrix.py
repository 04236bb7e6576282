"""What happens to each event in each state, as a table for a terminal or for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.declaration import MachineSpec, TransitionSpec

__all__ = ["FORMATS", "as_table", "matrix"]

FORMATS = ("text", "md")

_IGNORED = "-"
_NOTHING = "."
_LEGEND = (
    "`name>STATE` is a transition, `name` alone an internal one, `?` marks one with conditions; "
    f"`{_IGNORED}` is ignored, as the state says; `{_NOTHING}` cannot come, or means nothing."
)


def matrix(spec: MachineSpec, events: Sequence[str], *, format: str = "text") -> str:
    """A row for each event that something happens to, a column for each state that is not final.

    As text the states stand one below the other: side by side they would be too wide.
    """
    rows = [event for event in events if _matters(spec, event)]
    write = _markdown if format == "md" else _text
    return "\n".join(write(spec, rows)) + "\n"


def as_table(spec: MachineSpec, events: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """By state and event what happens, in the order in which it is tried, as data."""
    return {
        state: {event: what for event in events if (what := cell(spec, state, event)) != [_NOTHING]}
        for state in _open_states(spec)
    }


def _matters(spec: MachineSpec, event: str) -> bool:
    return any(spec.candidates(state, event) for state in spec.states)


def _open_states(spec: MachineSpec) -> list[str]:
    return [state.name for state in spec.states.values() if not state.final]


def cell(spec: MachineSpec, state: str, event: str) -> list[str]:
    """What happens to an event in a state, in the order in which it is tried."""
    found = []
    for transition in spec.candidates(state, event):
        found.append(_arrow(transition, state))
        if not transition.guarded:
            return found
    if event in spec.states[state].ignores:
        found.append(_IGNORED)
    return found or [_NOTHING]


def _arrow(transition: TransitionSpec, state: str) -> str:
    mark = "?" if transition.guarded else ""
    dest = "" if transition.dest is None else f">{transition.target(state)}"
    return f"{transition.name}{mark}{dest}"


def _text(spec: MachineSpec, events: Sequence[str]) -> Iterator[str]:
    width = max(map(len, events), default=0)
    for state in _open_states(spec):
        yield state
        for event in events:
            what = cell(spec, state, event)
            if what != [_NOTHING]:
                yield f"  {event:<{width}}  {', '.join(what)}"
    yield ""
    yield _LEGEND.replace("`", "")


def _markdown(spec: MachineSpec, events: Sequence[str]) -> Iterator[str]:
    states = _open_states(spec)
    yield f"| | {' | '.join(states)} |"
    yield f"|---|{'---|' * len(states)}"
    for event in events:
        cells = ["<br>".join(cell(spec, state, event)) for state in states]
        yield f"| **{event}** | {' | '.join(cells)} |"
    yield ""
    yield _LEGEND

"""XState v5: a configuration for ``createMachine``, as JSON.

The order in which transitions are tried is kept: those of a state as a list, those from ``any``
at the root, and an event that a state ignores as a transition that does nothing, which keeps it
from the root. XState takes one guard a transition, so several conditions, or ``unless``, become
one guard named by its text, with the parts in ``params``. A timer is an ``after`` whose delay is
named by our event. Actions run in XState's order: exit, transition, entry.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.graph.model import Arrow, Call, Diagram, Edge, Layer, Node

__all__ = ["to_xstate", "to_xstate_json"]


def to_xstate_json(diagram: Diagram, layer: Layer | None = None) -> str:
    """The configuration as JSON."""
    return json.dumps(to_xstate(diagram), indent=2, default=str) + "\n"


def to_xstate(diagram: Diagram) -> dict[str, Any]:
    """The configuration; ``id`` is the name of the diagram."""
    return _filled(
        {
            "id": diagram.name,
            "description": diagram.doc,
            "initial": diagram.initial,
            "on": _by_trigger(diagram.outer(), root=True),
            "states": {name: _state(node, diagram) for name, node in diagram.nodes.items()},
        }
    )


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _state(node: Node, diagram: Diagram) -> dict[str, Any]:
    meta = {"shows": list(node.shows), "exit_code": node.exit_code, "timeouts": node.timeouts}
    values = {
        "description": node.doc,
        "type": "final" if node.final else "",
        "meta": _filled(meta),
        "entry": _actions(node.on_enter),
        "exit": _actions(node.on_exit),
    }
    if node.final:
        return _filled(values)
    # An `after` of XState is an event of one state alone, which never gets to the root.
    on = _by_trigger(diagram.inner(node.name, also=node.timeouts))
    timed = {trigger: on.pop(trigger) for trigger in node.timeouts if trigger in on}
    return _filled(values | {"after": timed, "on": on | _ignored(node, diagram, on)})


def _ignored(node: Node, diagram: Diagram, on: dict[str, Any]) -> dict[str, Any]:
    at_the_root = {arrow.edge.trigger for arrow in diagram.outer()}
    return {event: [*on.get(event, []), {}] for event in node.ignores if event in at_the_root}


def _by_trigger(arrows: Iterable[Arrow], *, root: bool = False) -> dict[str, list[Any]]:
    on: dict[str, list[Any]] = {}
    for arrow in arrows:
        on.setdefault(arrow.edge.trigger, []).append(_transition(arrow.edge, arrow, root=root))
    return on


def _transition(edge: Edge, arrow: Arrow, *, root: bool) -> dict[str, Any]:
    target = "" if edge.internal else f".{edge.dest}" if root else arrow.target
    # Without it, XState does not leave a state for itself.
    again = not root and not edge.internal and arrow.target == arrow.source
    return _filled(
        {
            "target": target,
            "reenter": again,
            "guard": _guard(edge),
            "actions": _actions((*edge.before, *edge.after)),
            "description": edge.doc,
            "meta": {"transition": edge.name},
        }
    )


def _guard(edge: Edge) -> Any:
    if not edge.guards:
        return None
    if edge.guards == (plain := edge.conditions[0].name if edge.conditions else "",):
        return plain
    params = {"conditions": _calls(edge.conditions), "unless": _calls(edge.unless)}
    return {"type": " and ".join(edge.guards), "params": _filled(params)}


def _actions(calls: Iterable[Call]) -> list[Any]:
    return [
        call.name
        if call.arguments is None
        else {"type": call.name, "params": {"arguments": call.arguments}}
        for call in calls
    ]


def _calls(calls: Iterable[Call]) -> list[dict[str, Any]]:
    return [{"name": call.name, "arguments": call.arguments} for call in calls]

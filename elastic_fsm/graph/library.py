"""The dictionary that the ``transitions`` library takes: ``transitions.Machine(model, **it)``.

That library has no parameters and no ``any`` without final states, so a use with parameters
becomes a name of its own (``signal_in_stop_signals``), and ``any`` is spelt out. Transitions
stand in the order in which ours are tried. What the library has no word for (what a state
shows, exit codes, timeouts, sentences) is left out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.graph.model import Call, Diagram, Edge, Layer, Node

__all__ = ["method_names", "to_library", "to_library_json"]


def to_library_json(diagram: Diagram, layer: Layer | None = None) -> str:
    """The dictionary as JSON."""
    return json.dumps(to_library(diagram), indent=2) + "\n"


def to_library(diagram: Diagram) -> dict[str, Any]:
    """Keyword arguments for the library's ``Machine``; conditions and actions are names."""
    names = method_names(diagram)
    edges = diagram.edges.values()
    named = [_entry(e, list(e.sources), names) for e in _ordered(edges) if e.sources]
    general = [_entry(e, list(e.others), names) for e in _ordered(edges) if e.others]
    return {
        "states": [_state(node, names) for node in diagram.nodes.values()],
        "transitions": named + general,
        "initial": diagram.initial,
        "auto_transitions": False,
        "ignore_invalid_triggers": True,
        "send_event": True,
    }


def _ordered(edges: Iterable[Edge]) -> list[Edge]:
    return sorted(edges, key=lambda edge: -edge.priority)


def _state(node: Node, names: dict[str, str]) -> dict[str, Any]:
    return {
        "name": node.name,
        "on_enter": _methods(node.on_enter, names),
        "on_exit": _methods(node.on_exit, names),
        "final": node.final,
    }


def _entry(edge: Edge, sources: list[str], names: dict[str, str]) -> dict[str, Any]:
    return {
        "trigger": edge.trigger,
        "source": sources,
        "dest": "=" if edge.again else edge.dest,
        "conditions": _methods(edge.conditions, names),
        "unless": _methods(edge.unless, names),
        "before": _methods(edge.before, names),
        "after": _methods(edge.after, names),
    }


def _methods(calls: Iterable[Call], names: dict[str, str]) -> list[str]:
    return [names[call.text] for call in calls]


def method_names(diagram: Diagram) -> dict[str, str]:
    """The method that a model must have for each use of a condition or an action, by its text."""
    names: dict[str, str] = {}
    for text in sorted(call.text for call in _calls(diagram)):
        wanted = name = "_".join(re.findall(r"\w+", text))
        number = 1
        while text not in names and name in names.values():
            number += 1
            name = f"{wanted}_{number}"
        names.setdefault(text, name)
    return names


def _calls(diagram: Diagram) -> Iterable[Call]:
    for node in diagram.nodes.values():
        yield from (*node.on_enter, *node.on_exit)
    for edge in diagram.edges.values():
        yield from (*edge.conditions, *edge.unless, *edge.before, *edge.after)

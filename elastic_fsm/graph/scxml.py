"""SCXML, the W3C's state chart XML.

All states that are not final stand in one compound state, ``any``, which has the arrows from
``any``: an inner state's transitions are tried first there too. Conditions and actions are calls
of functions that the interpreter's data model must offer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from elastic_fsm.durations import parse_duration, say_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from elastic_fsm.graph.model import Arrow, Call, Diagram, Layer, Node

__all__ = ["to_scxml"]

_SPACE = "http://www.w3.org/2005/07/scxml"


def to_scxml(diagram: Diagram, layer: Layer | None = None) -> str:
    """The document."""
    root = Xml.Element(
        "scxml",
        xmlns=_SPACE,
        version="1.0",
        name=diagram.name,
        initial="any",
        datamodel="ecmascript",
    )
    whole = Xml.SubElement(root, "state", id="any", initial=diagram.initial)
    for node in diagram.nodes.values():
        if node.final:
            _actions(Xml.SubElement(root, "final", id=node.name), "onentry", node.on_enter)
        else:
            _state(whole, node, diagram)
    for arrow in diagram.outer():
        _transition(whole, arrow)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _state(whole: Xml.Element, node: Node, diagram: Diagram) -> None:
    state = Xml.SubElement(whole, "state", id=node.name)
    entry = _actions(state, "onentry", node.on_enter, needed=bool(node.timeouts))
    leave = _actions(state, "onexit", node.on_exit, needed=bool(node.timeouts))
    for event, delay in node.timeouts.items():
        timer = f"{node.name}.{event}"
        attributes = _delay(delay)
        assert entry is not None
        assert leave is not None
        Xml.SubElement(entry, "send", attributes, event=event, id=timer)
        Xml.SubElement(leave, "cancel", sendid=timer)
    for arrow in diagram.inner(node.name):
        _transition(state, arrow)
    general = {arrow.edge.trigger for arrow in diagram.outer()}
    for event in node.ignores:
        if event in general:
            Xml.SubElement(state, "transition", event=event)


def _transition(state: Xml.Element, arrow: Arrow) -> None:
    edge = arrow.edge
    target = "" if edge.internal else arrow.target
    terms = [*map(_call, edge.conditions), *(f"!{_call(call)}" for call in edge.unless)]
    attributes = {"event": edge.trigger, "cond": " && ".join(terms), "target": target}
    attributes = {key: value for key, value in attributes.items() if value}
    _scripts(Xml.SubElement(state, "transition", attributes), (*edge.before, *edge.after))


def _delay(text: str) -> dict[str, str]:
    """A duration in seconds, since SCXML knows no minutes, or the name of where it comes from."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        return {"delayexpr": text if "." in text else f"{text}()"}
    assert seconds is not None  # only None is never
    return {"delay": f"{say_seconds(seconds)}s"}


def _actions(
    parent: Xml.Element, tag: str, calls: tuple[Call, ...], *, needed: bool = False
) -> Xml.Element | None:
    if not calls and not needed:
        return None
    element = Xml.SubElement(parent, tag)
    _scripts(element, calls)
    return element


def _scripts(parent: Xml.Element, calls: Iterable[Call]) -> None:
    for call in calls:
        Xml.SubElement(parent, "script").text = _call(call)


def _call(call: Call) -> str:
    arguments = "" if call.arguments is None else json.dumps(call.arguments, default=str)
    return f"{call.name}({arguments})"

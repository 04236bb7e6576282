"""Turns an OmegaConf tree into plain values, with every finding and the worker's text apart."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, ListConfig

from elastic_fsm.config.failures import UNFIT, resolve_problem
from elastic_fsm.config.tree import dotted
from elastic_fsm.config.verbatim import decode, encode, is_verbatim, text_of
from elastic_fsm.problems import Problem

__all__ = ["plain"]


def plain(node: Any, path: str, problems: list[Problem]) -> Any:
    """``node`` with references resolved; text of the worker's is encoded and left alone.

    ``OmegaConf.to_container`` stops at the first reference that leads nowhere; this goes on.
    """
    if isinstance(node, DictConfig):
        return {key: _child(node, key, dotted(path, key), problems) for key in list(node.keys())}
    if isinstance(node, ListConfig):
        return [_child(node, i, dotted(path, i), problems) for i in range(len(node))]
    # What a resolver returned may look like a reference; it has been resolved and is not one.
    return encode(node) if isinstance(node, str) and "${" in node else node


def _child(node: DictConfig | ListConfig, key: Any, path: str, problems: list[Problem]) -> Any:
    if is_verbatim(path):
        return _text(node, key, path, problems)
    try:
        value = node[key]
    except UNFIT as error:
        problems.append(resolve_problem(error, path))
        return None
    return plain(value, path, problems)


def _text(node: DictConfig | ListConfig, key: Any, path: str, problems: list[Problem]) -> Any:
    child: Any = node._get_node(key)
    raw = child._value()
    if raw is None and path == "spec.entrypoint":
        return None
    if isinstance(raw, dict | list):
        problems.append(Problem("is not one text", path=path, fix="give a single value"))
        return ""
    text = text_of(raw)
    return text if decode(text) != text else encode(text)

"""From what the user gave to a checked run: the two doors into the configuration.

``compose`` serves our command line, ``resolve`` a Python program or a Hydra application that has
composed already. Both end in the same steps: work out references, write back the worker's text,
check ranges. Every finding is a ``Problem``; no exception of Hydra's leaves this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omegaconf import DictConfig, OmegaConf

from elastic_fsm.config.checks import check, fill_in, shapes
from elastic_fsm.config.composed import Composed
from elastic_fsm.config.failures import UNFIT, reason
from elastic_fsm.config.hints import GROUPS
from elastic_fsm.config.layers import Layers
from elastic_fsm.config.masking import secrets_of
from elastic_fsm.config.origins import PROGRAM
from elastic_fsm.config.plain import plain
from elastic_fsm.config.tree import strings
from elastic_fsm.config.verbatim import decode
from elastic_fsm.problems import COMMAND_LINE, BadInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elastic_fsm.config.schema import RunConfig

__all__ = ["compose", "resolve"]

_TAKES = "pass a DictConfig, a RunConfig or a mapping"


def compose(
    overrides: Sequence[str],
    *,
    job_file: Path | None = None,
    program: Mapping[str, Any] | None = None,
) -> Composed:
    """The run that these overrides (and job file) describe; raises ``BadInput``.

    ``program`` are values between the files and the overrides, as they came out of an earlier
    composition; a ``machine`` among them that has an ``initial`` takes the place of ours.

    Nothing outside is touched: no folder made, no logging set up, no global state of Hydra's
    left behind or disturbed.
    """
    job = None if job_file is None else Path(job_file)
    with _bottomless(COMMAND_LINE):
        return _finish(Layers.compose(overrides, job=job, program=program))


def resolve(config: DictConfig | RunConfig | Mapping[str, Any]) -> Composed:
    """The run that a program describes, merged onto the defaults; raises ``BadInput``.

    ``config`` may be a node inside an application's own configuration (its references are then
    looked up there), a ``RunConfig``, a mapping, or what hydra-zen builds from these. A group
    may be named instead of spelt out, ``{"machine": "fail_fast"}``. A ``machine`` that has an
    ``initial`` is a whole one; any other is merged onto ours.

    A worker's arguments and variables are never interpolated. They have been through the
    application's YAML, so what is no text any more is written as YAML would write it: ``true``,
    ``null``, ``1000.0`` for ``1e3``.
    """
    problems: list[Problem] = []
    with _bottomless(PROGRAM):
        given = plain(_as_node(config), "", problems)
    if problems:
        raise BadInput(problem._replace(where=PROGRAM) for problem in problems)
    given = _without_machinery(given)
    names = [group for group in GROUPS if isinstance(given.get(group), str)]
    words = [f"{group}={given.pop(group)}" for group in names]
    try:
        with _bottomless(PROGRAM):
            return _finish(Layers.compose(words, program=given))
    except BadInput as error:  # the words were ours
        typed = COMMAND_LINE
        raise BadInput(
            problem._replace(where=PROGRAM) if problem.where == typed else problem
            for problem in error.problems
        ) from None


@contextmanager
def _bottomless(where: str) -> Iterator[None]:
    """What is nested deeper than anybody can look; in a file it has been found already."""
    try:
        yield
    except RecursionError:
        fix = "give a value with fewer lists and mappings in each other"
        raise BadInput.of("a value is nested too deeply", where=where, fix=fix) from None


def _without_machinery(given: dict[Any, Any]) -> dict[Any, Any]:
    """Drop the keys by which Hydra and hydra-zen say what to build, in the run and its groups."""
    return {
        key: _without_machinery(value) if key in GROUPS and isinstance(value, dict) else value
        for key, value in given.items()
        if not str(key).startswith(("_zen_", "_target_", "_convert_", "_recursive_", "_partial_"))
    }


def _as_node(config: Any) -> DictConfig:
    if isinstance(config, DictConfig) and isinstance(config._value(), dict):
        return config
    if isinstance(config, DictConfig) or not (isinstance(config, Mapping) or is_dataclass(config)):
        content = f" of {config._value()!r}" if isinstance(config, DictConfig) else ""
        what = f"cannot use a {type(config).__name__}{content} as configuration"
        raise BadInput.of(what, fix=_TAKES)
    try:
        if is_dataclass(config):
            return cast("DictConfig", OmegaConf.structured(config))
        return OmegaConf.create(dict(config))
    except (*UNFIT, TypeError) as error:
        what, path = f"cannot use this configuration: {reason(error)}", _key_of(error)
        fix = "give numbers, text, lists and mappings, as RunConfig has them" if path else _TAKES
        raise BadInput.of(what, path=path, where=PROGRAM, fix=fix) from None


def _key_of(error: Exception) -> str:
    """The dotted path of which OmegaConf speaks, if it says one."""
    return getattr(error, "full_key", None) or ""


def _finish(layers: Layers) -> Composed:
    """References, the worker's text, ranges; all that is wrong is said together."""
    problems = layers.problems
    raw = OmegaConf.to_container(layers.config, resolve=False)
    assert isinstance(raw, dict)
    raw["machine"] = layers.machine
    texts = list(strings(raw))
    if any("${" in text or text == "???" for text in texts) or _typed_texts(raw["spec"]):
        layers.adopt_machine()
        raw = plain(layers.config, "", problems)
    values: dict[str, Any] = decode(raw)
    for problem in problems:
        fill_in(values, problem.path)
    for problem in (misshapen := shapes(values)):
        fill_in(values, problem.path)
    problems = [*problems, *misshapen, *check(values)]
    composed = Composed(values, layers=layers)
    if problems:
        raise BadInput(dict.fromkeys(map(composed.locate, problems)))
    return Composed(values, layers=layers, secrets=secrets_of(values, texts))


def _typed_texts(spec: dict[str, Any]) -> bool:
    """Whether some argument or variable is a number: set by a program, or by Hydra."""
    tables = [spec["env"], *(env or {} for env in spec["worker_env"].values())]
    found = [*spec["args"], *(value for table in tables for value in table.values())]
    return not all(isinstance(value, str) for value in found)

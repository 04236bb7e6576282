"""Which starter a launcher gets, by the names that the configuration and torch use."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.starters import CommandStarter
from elastic_fsm.problems import Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from elastic_fsm.launchers.base import ExitWatcher
    from elastic_fsm.launchers.starters import Starter
    from elastic_fsm.loop import Loop

__all__ = [
    "LAUNCHERS",
    "START_METHODS",
    "check_launcher",
    "check_start_method",
    "is_found",
    "make_starter",
]

LAUNCHERS = ("subprocess", "multiprocessing", "forkserver")
START_METHODS = ("spawn", "fork", "forkserver")


def make_starter(
    name: str,
    *,
    loop: Loop,
    exits: ExitWatcher,
    start_method: str = "spawn",
    preload: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> Starter:
    """The starter of ``launcher.name``; for the options see the starters.

    Raises ``ValueError`` for names that there are not.
    """
    if name not in LAUNCHERS:
        raise ValueError(f"unknown launcher {name!r}: one of {', '.join(LAUNCHERS)}")
    check_start_method(start_method)
    if name == "subprocess":
        return CommandStarter()
    if name == "forkserver" or start_method == "forkserver":
        from elastic_fsm.launchers.forkserver import ForkServerStarter

        return ForkServerStarter(loop, exits, preload=preload, env=env, say=say)
    if start_method == "fork":
        from elastic_fsm.launchers.forking import ForkStarter

        return ForkStarter()
    from elastic_fsm.launchers.spawning import SpawnStarter

    return SpawnStarter()


def check_start_method(name: str) -> None:
    """Raises ``ValueError`` for one that there is not."""
    if name not in START_METHODS:
        raise ValueError(f"unknown start method {name!r}: one of {', '.join(START_METHODS)}")


def check_launcher(launcher: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the group ``launcher`` for the worker that ``spec`` describes."""
    name, method = launcher["name"], launcher["start_method"]
    for path, given, known in (("name", name, LAUNCHERS), ("start_method", method, START_METHODS)):
        if given not in known:
            what = f"unknown {'launcher' if path == 'name' else 'start method'} {given!r}"
            yield Problem(what, path=f"launcher.{path}", fix=did_you_mean(given, known))
    if name == "forkserver" or (name == "multiprocessing" and method == "forkserver"):
        yield from _check_forkserver(launcher, spec)
    elif launcher["preload"]:
        fix = "choose launcher=forkserver, or take it out"
        yield Problem(f"launcher={name} preloads nothing", path="launcher.preload", fix=fix)


def _check_forkserver(launcher: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Problem]:
    if sys.platform != "linux":
        fix = "choose launcher=subprocess"
        yield Problem("forkserver needs Linux: it adopts orphans", path="launcher.name", fix=fix)
    entrypoint = spec["entrypoint"]
    is_text = isinstance(entrypoint, str)
    if is_text and entrypoint and not spec["module"] and not entrypoint.endswith(".py"):
        what = f"a forkserver runs Python files and modules; {entrypoint!r} is neither"
        yield Problem(what, path="spec.entrypoint", fix="choose launcher=subprocess")
    if not os.environ.get("PYTHON_EXEC") and "PYTHONPATH" not in spec["env"]:
        for index, module in enumerate(launcher["preload"]):
            if not is_found(module):
                what = f"no module named {module!r} for {sys.executable}"
                yield Problem(what, path=f"launcher.preload.{index}")


def is_found(module: str, folder: str = ".") -> bool:
    """Whether a module may be imported by what starts in ``folder``, by default the current one.

    Only the top-level name is looked for: looking deeper would import it here.
    """
    top = module.partition(".")[0]
    if any(Path(folder, f"{top}{end}").exists() for end in ("", ".py", ".so")):
        return bool(top)
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False

"""Whether the workers' command can be started at all, told before anything is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.choice import is_found
from elastic_fsm.problems import Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["check_command"]


def check_command(spec: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with entrypoint and working directory; ``spec`` holds WorkerSpec's fields."""
    return [*_check_cwd(spec), *_check_entrypoint(spec), *_check_interpreter(spec)]


def _check_cwd(spec: Mapping[str, Any]) -> Iterator[Problem]:
    if spec["cwd"] is not None and not Path(spec["cwd"]).is_dir():
        yield Problem(f"the working directory {spec['cwd']!r} does not exist", path="spec.cwd")


def _check_entrypoint(spec: Mapping[str, Any]) -> Iterator[Problem]:
    entrypoint = spec["entrypoint"]
    if not entrypoint:
        yield Problem(
            "there is no command to run",
            path="spec.entrypoint",
            fix="at the end, as in elastic-fsm run -n 4 train.py --lr 0.1, or as spec.entrypoint",
        )
    elif spec["module"]:
        yield from _check_module(entrypoint, spec)
    elif entrypoint.endswith(".py"):
        yield from _check_script(entrypoint, Path(spec["cwd"] or "."))
    elif not _is_program(entrypoint, spec):
        yield _no_program(entrypoint, spec)


def _no_program(entrypoint: str, spec: Mapping[str, Any]) -> Problem:
    if os.sep in entrypoint and Path(spec["cwd"] or ".", entrypoint).is_file():
        what, fix = f"{entrypoint!r} may not be executed", f"allow it: chmod +x {entrypoint}"
    else:
        what = f"command not found: {entrypoint!r}"
        fix = "give a path, or a program on PATH; a Python file needs its .py"
    return Problem(what, path="spec.entrypoint", fix=fix)


def _check_script(script: str, folder: Path) -> Iterator[Problem]:
    path = folder / script
    if path.is_dir():
        inside = sorted(str(Path(script, entry.name)) for entry in path.glob("*.py"))
        fix = f"name the script in it: {', '.join(inside)}" if inside else "name a file"
        yield Problem(f"{script!r} is a folder, not a script", path="spec.entrypoint", fix=fix)
    elif not path.is_file():
        beside = path.parent
        names = [path.name for path in beside.glob("*.py")] if beside.is_dir() else []
        fix = did_you_mean(Path(script).name, names) or f"looked in {beside.absolute()}"
        yield Problem(f"no such file: {script!r}", path="spec.entrypoint", fix=fix)


def _check_module(name: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    if os.environ.get("PYTHON_EXEC") or "PYTHONPATH" in spec["env"]:
        return  # another interpreter, or another path, than ours
    # The interpreter of `-m` searches the workers' current folder, which ours need not.
    if not is_found(name, spec["cwd"] or "."):
        what = f"no module named {name.partition('.')[0]!r} for {sys.executable}"
        yield Problem(what, path="spec.entrypoint")


def _check_interpreter(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """The program of ``PYTHON_EXEC`` runs scripts and modules, but no other commands."""
    python = os.environ.get("PYTHON_EXEC")
    for_python = spec["module"] or str(spec["entrypoint"]).endswith(".py")
    if python and for_python and not _is_program(python, spec):
        what = f"the interpreter is not there, or cannot be run: {python!r}"
        yield Problem(what, where="PYTHON_EXEC", fix="name a Python, or leave PYTHON_EXEC unset")


def _is_program(entrypoint: str, spec: Mapping[str, Any]) -> bool:
    if os.sep in entrypoint:
        program = Path(spec["cwd"] or ".") / entrypoint
        return program.is_file() and os.access(program, os.X_OK)
    import shutil  # brings three compressors along, which few commands are worth

    return shutil.which(entrypoint, path=spec["env"].get("PATH")) is not None

"""Whether the workers' command can be started at all, told before anything is."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.choice import is_found
from elastic_fsm.problems import Problem, closest, did_you_mean, listed
from elastic_fsm.shebang import fault_of_first_line, fault_of_place, is_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["check_command"]


def check_command(spec: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with entrypoint and working directory; ``spec`` holds WorkerSpec's fields."""
    problems = [*_check_own_python(), *_check_cwd(spec)]
    if not spec["entrypoint"]:
        problems.append(_no_command())
    elif not any(problem.path == "spec.cwd" for problem in problems):  # else nothing is known
        problems += _check_entrypoint(spec["entrypoint"], spec)
    return [*problems, *_check_interpreter(spec)]


def _check_own_python() -> Iterator[Problem]:
    if not is_program(Path(sys.executable or "")):
        what = "the guardian, which ends the workers when the agent dies, cannot be started"
        fix = f"make {sys.executable!r} executable for this user, or use another Python"
        yield Problem(what, fix=fix)


def _check_cwd(spec: Mapping[str, Any]) -> Iterator[Problem]:
    if spec["cwd"] is not None and (fault := _fault_of_folder(spec["cwd"])):
        yield _faulty(f"the working directory {spec['cwd']!r}", fault, "spec.cwd")


def _fault_of_folder(folder: str) -> str:
    if fault := fault_of_place(Path(folder)):
        return fault
    if not os.path.exists(folder):
        return "does not exist; make it, or name another"
    if not os.path.isdir(folder):
        return "is no folder; name one"
    return "" if os.access(folder, os.X_OK) else f"may not be entered; allow it: chmod +x {folder}"


def _faulty(name: str, fault: str, path: str = "spec.entrypoint") -> Problem:
    """``fault`` is what is wrong and, after a semicolon, what to do."""
    what, _, fix = fault.partition("; ")
    return Problem(f"{name} {what}", path=path, fix=fix)


def _no_command() -> Problem:
    return Problem(
        "there is no command to run",
        path="spec.entrypoint",
        fix="at the end, as in elastic-fsm run -n 4 train.py --lr 0.1, or as spec.entrypoint",
    )


def _check_entrypoint(entrypoint: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    path = Path(spec["cwd"] or ".") / entrypoint
    is_script = entrypoint.endswith(".py")
    if spec["module"]:
        yield from _check_module(entrypoint, spec)
    elif (is_script or os.sep in entrypoint) and (fault := fault_of_place(path)):
        yield _faulty(repr(entrypoint), fault)
    elif is_script:
        yield from _check_script(entrypoint, path)
    else:
        yield from _check_program(entrypoint, path, spec)


def _check_program(entrypoint: str, path: Path, spec: Mapping[str, Any]) -> Iterator[Problem]:
    program = _found(entrypoint, spec)
    if program is None:
        yield _no_program(entrypoint, path)
    elif fault := fault_of_first_line(program, Path(spec["cwd"] or "."), spec["env"]):
        yield _faulty(repr(entrypoint), fault)


def _no_program(entrypoint: str, path: Path) -> Problem:
    is_path = os.sep in entrypoint
    if os.path.isdir(path):
        what, fix = f"{entrypoint!r} is a folder, not a program", "name the program in it"
    elif is_path and not os.path.exists(path):
        return _no_file(entrypoint, path, beside=path.parent.glob("*"))
    elif is_path and not os.path.isfile(path):
        what, fix = f"{entrypoint!r} is no regular file, and so no program", "name a program"
    elif is_path:
        what, fix = f"{entrypoint!r} may not be executed", f"allow it: chmod +x {entrypoint}"
    else:
        what = f"command not found: {entrypoint!r}"
        fix = "give a path, or a program on PATH; a Python file needs its .py"
        if os.path.isfile(path):
            fix = f"it is looked for on PATH; the file here is .{os.sep}{entrypoint}"
        elif key := _key_in(entrypoint):
            fix = f"an override is written as one word, with '=': {key}=…"
    return Problem(what, path="spec.entrypoint", fix=fix)


def _key_in(word: str) -> str:
    """The key of an override, where somebody has typed ``key value`` or ``key:value``."""
    from elastic_fsm.config.hints import is_known

    key = word.partition(":")[0]
    return key if "." in key and is_known(key) else ""


def _no_file(entrypoint: str, path: Path, beside: Iterable[Path]) -> Problem:
    near = closest(path.name, [file.name for file in beside])
    fix = f"did you mean {near!r}?" if near else f"looked in {path.parent.absolute()}"
    return Problem(f"no such file: {entrypoint!r}", path="spec.entrypoint", fix=fix)


def _check_script(script: str, path: Path) -> Iterator[Problem]:
    if path.is_dir():
        inside = sorted(str(Path(script, entry.name)) for entry in path.glob("*.py"))
        fix = f"name the script in it: {listed(inside)}" if inside else "name a file"
        yield Problem(f"{script!r} is a folder, not a script", path="spec.entrypoint", fix=fix)
    elif not os.path.exists(path):
        yield _no_file(script, path, beside=path.parent.glob("*.py"))
    elif not os.access(path, os.R_OK):
        fix = f"allow it: chmod +r {script}"
        yield Problem(f"{script!r} may not be read", path="spec.entrypoint", fix=fix)


def _check_module(name: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    if os.environ.get("PYTHON_EXEC") or "PYTHONPATH" in spec["env"]:
        return  # another interpreter, or another path, than ours
    # The interpreter of `-m` searches the workers' current folder, which ours need not.
    folder = spec["cwd"] or "."
    if os.sep in name:
        what = f"{name!r} is a path, and no module's name"
        fix = "write it with dots, as in -m pkg.train, or leave -m out to run a file"
        yield Problem(what, path="spec.entrypoint", fix=fix)
    elif not is_found(name, folder):
        what = f"no module named {name.partition('.')[0]!r} for {sys.executable}"
        yield Problem(what, path="spec.entrypoint")
    else:
        yield from _check_parts(name, Path(folder).absolute())


def _check_parts(name: str, here: Path) -> Iterator[Problem]:
    """A module below ``here``, the workers' folder, down to its file; nothing is imported.

    A package without ``__init__`` has no ``origin``, and may lie in several places. An installed
    one, and one that sets its ``__path__``, may have parts where only itself knows.
    """
    top, *rest = name.split(".")
    found = PathFinder.find_spec(top, [str(here), *sys.path])
    if found is None or (found.origin and Path(found.origin).parent not in (here, here / top)):
        return
    package = top
    for part in rest:
        if _sets_its_path(found):
            return
        folders = list(found.submodule_search_locations or ())
        found = PathFinder.find_spec(part, folders)  # its whole name would ask for the parents
        if found is None:
            yield _no_part(name, package, part, folders)
            return
        package = f"{package}.{part}"
    if found.submodule_search_locations is not None:
        yield from _check_package(name, list(found.submodule_search_locations))


def _sets_its_path(package: ModuleSpec) -> bool:
    if not package.has_location or package.origin is None:
        return False
    return b"__path__" in Path(package.origin).read_bytes()


def _no_part(name: str, package: str, part: str, folders: list[str]) -> Problem:
    fix = did_you_mean(part, _modules_in(folders))
    if name.endswith(".py"):
        fix = f"a module is named without .py: -m {name.removesuffix('.py')}"
    return Problem(f"no module {part!r} in {package!r}", path="spec.entrypoint", fix=fix)


def _check_package(name: str, folders: list[str]) -> Iterator[Problem]:
    if PathFinder.find_spec("__main__", folders) is None:
        inside = [f"{name}.{module}" for module in _modules_in(folders)]
        what = f"{name!r} is a package without a module __main__, which is what would be run"
        fix = f"name a module in it: {listed(inside)}" if inside else "name a module"
        yield Problem(what, path="spec.entrypoint", fix=fix)


def _modules_in(folders: list[str]) -> list[str]:
    from pkgutil import iter_modules  # only a mistake needs it

    return [module.name for module in iter_modules(folders)]


def _check_interpreter(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """The program of ``PYTHON_EXEC`` runs scripts and modules, but no other commands."""
    python = os.environ.get("PYTHON_EXEC")
    for_python = spec["module"] or str(spec["entrypoint"]).endswith(".py")
    if python and for_python and _found(python, spec) is None:
        what = f"the interpreter is not there, or cannot be run: {python!r}"
        yield Problem(what, where="PYTHON_EXEC", fix="name a Python, or leave PYTHON_EXEC unset")


def _found(entrypoint: str, spec: Mapping[str, Any]) -> Path | None:
    """The file of a program; None for one that is not there, or cannot be run."""
    if os.sep in entrypoint:
        program = Path(spec["cwd"] or ".") / entrypoint
        return program if is_program(program) else None
    import shutil  # brings three compressors along, which few commands are worth

    found = shutil.which(entrypoint, path=spec["env"].get("PATH"))
    return None if found is None else Path(found)

"""Dependencies point down: the table in docs/design.md, held against every module's imports.

Imports inside functions and for type checking count like the others: they are dependencies of
the reader. A new module belongs into the table.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elastic_fsm

PACKAGE = Path(elastic_fsm.__file__).parent

DESIGN = PACKAGE.parent / "docs" / "design.md"


def table_of_the_design() -> list[list[str]]:
    """The cells of the table in section 4, without its head."""
    section = DESIGN.read_text().partition("## 4.")[2].partition("## 5.")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


# By layer: the entries of the table, and the layers that it may import beside itself. An adapter
# knows only its own package, not its siblings.
LAYERS = {
    layer: [name.replace("/", ".") for name in re.findall(r"`([^`]+)`", files)]
    for layer, files, _ in table_of_the_design()
}
MAY_IMPORT = {
    layer: set(re.split(r"[,:; ]+", below)) & set(LAYERS)
    for layer, _, below in table_of_the_design()
}
# Single arrows that the table does not allow, each with its reason.
ALSO = {
    ("journal", "machine"): "a journal is made of steps",
    ("actions", "agent"): "the type of an action's first argument",
}

# Third-party packages, and the only modules that may import them.
CONFINED = {
    "transitions": {"machine"},
    "hydra": {"config"},
    "omegaconf": {"config"},
    "packaging": {"config"},  # comes with hydra
    "yaml": {"config"},
    "psutil": {"launchers"},
    "torch": set(),
}

# Data and core know neither time nor the world.
IMPURE = {
    "asyncio", "fcntl", "logging", "multiprocessing", "os", "pathlib", "random", "select",
    "selectors", "shutil", "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
IMPURE_BUT = {
    ("failures", "os"): "torch's ChildFailedError names the host by itself",
    ("failures", "time"): "torch's ProcessFailure takes the present time by itself",
    ("failures", "pathlib"): "torch's ProcessFailure reads its error file by itself",
    ("group", "pathlib"): "pure paths only",
    ("machine", "logging"): "to silence the library",
}


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names}


def home(module: str) -> str:
    """The entry of the table that covers a module: the longest one that fits."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in LAYER_OF:
            return ".".join(parts[:end])
    raise AssertionError(f"{module} is in no layer: add it to the table")


def imports(module: str) -> set[str]:
    """Everything that a module imports, with our own names relative to the package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            found |= {_imported(node.module or "", alias.name) for alias in node.names}
    return found


def _imported(package: str, name: str) -> str:
    if package.partition(".")[0] != "elastic_fsm":
        return package
    whole = f"{package}.{name}".removeprefix("elastic_fsm.")
    is_module = whole in MODULES or package == "elastic_fsm"
    ours = whole if is_module else package.removeprefix("elastic_fsm.")
    return f"elastic_fsm.{ours}"


def own_imports(module: str) -> set[str]:
    names = {name for name in imports(module) if name.startswith("elastic_fsm.")}
    return {name.removeprefix("elastic_fsm.") for name in names} - {"__version__"}


def third_party(module: str) -> set[str]:
    tops = {name.partition(".")[0] for name in imports(module)}
    return tops - set(sys.stdlib_module_names) - {"elastic_fsm", "__future__"}


def is_below(module: str, imported: str) -> bool:
    mine, other = home(module), home(imported)
    layer, below = LAYER_OF[mine], LAYER_OF[other]
    if (module, imported) in ALSO:
        return True
    if layer == "adapters":
        own = imported.partition(".")[0] == module.partition(".")[0]
        return below == "data" or own or imported in ("clock", "loop")
    return below == layer or below in MAY_IMPORT[layer]


def test_every_module_is_in_the_table_and_every_entry_is_a_module():
    assert {home(module) for module in MODULES} == set(LAYER_OF)


def test_imports_only_what_is_below():
    above = {
        f"{module} ({LAYER_OF[home(module)]}) imports {name}"
        for module in MODULES
        for name in own_imports(module)
        if not is_below(module, name)
    }
    assert above == set()


def test_third_party_packages_stay_where_they_belong():
    strays = {
        f"{module} imports {name}"
        for module in MODULES
        for name in third_party(module)
        if home(module) not in CONFINED.get(name, set())
    }
    assert strays == set()


def test_data_and_core_are_pure():
    impure = {
        f"{module} imports {name}"
        for module in MODULES
        if LAYER_OF[home(module)] in ("data", "core")
        for name in imports(module) & IMPURE
        if (module, name) not in IMPURE_BUT
    }
    assert impure == set()


def test_no_circles():
    """Dependencies at run time have an order; those for type checking alone may go round."""
    order = {name: _runtime_imports(name) for name in MODULES}
    while leaves := {name for name, needs in order.items() if not needs & set(order)}:
        order = {name: needs for name, needs in order.items() if name not in leaves}
    assert not order


def _runtime_imports(module: str) -> set[str]:
    """Those at the top of the module, which are carried out when it is imported."""
    nodes = [
        n for n in ast.parse(MODULES[module].read_text()).body if isinstance(n, ast.ImportFrom)
    ]
    names = {_imported(node.module or "", alias.name) for node in nodes for alias in node.names}
    return {n.removeprefix("elastic_fsm.") for n in names if n.startswith("elastic_fsm.")}


def _names_from(module: str) -> set[tuple[str, str]]:
    """What a module imports by name out of our other modules."""
    nodes = [
        n for n in ast.walk(ast.parse(MODULES[module].read_text())) if isinstance(n, ast.ImportFrom)
    ]
    names = {
        ((n.module or "").removeprefix("elastic_fsm."), a.name) for n in nodes for a in n.names
    }
    return {(m, name) for m, name in names if m in MODULES and f"{m}.{name}" not in MODULES}


def _exported(module: str) -> set[str]:
    """Its ``__all__``, read and not asked for: some modules need what is not installed."""
    for node in ast.parse(MODULES[module].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {ast.literal_eval(name) for name in getattr(node.value, "elts", ())}
    return set()


def test_what_others_import_is_exported():
    named = {pair for module in MODULES for pair in _names_from(module)}
    exported = {module: _exported(module) for module, _ in named}
    assert {(m, name) for m, name in named if name not in exported[m]} == set()


def test_exceptions_are_needed():
    """An exception that nobody needs any more is a hole."""
    assert all(imported in own_imports(module) for module, imported in ALSO)
    assert all(name in imports(module) for module, name in IMPURE_BUT)


def test_public_names_are_found_when_they_are_asked_for():
    names = {name: getattr(elastic_fsm, name) for name in elastic_fsm.__all__}
    assert all(value is not None for value in names.values())
    with pytest.raises(AttributeError, match="has no attribute 'nobody'"):
        _ = elastic_fsm.nobody


def loaded(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split("\n")[-2].split())


@pytest.mark.slow
def test_the_worker_side_costs_nothing():
    ours = {name for name in loaded("import elastic_fsm.worker") if name.startswith("elastic_fsm")}
    assert ours == {"elastic_fsm", "elastic_fsm.worker"}


@pytest.mark.slow
@pytest.mark.parametrize("word", ["--help", "--version"])
def test_a_look_at_the_command_line_loads_nothing_heavy(word):
    found = loaded(f"from elastic_fsm.cli import run_command_line; run_command_line(['{word}'])")
    assert not found & {"hydra", "omegaconf", "transitions", "psutil", "torch", "yaml"}


@pytest.mark.slow
def test_the_agent_loads_neither_hydra_nor_torch():
    found = loaded("import elastic_fsm.agent, elastic_fsm.launchers.local, elastic_fsm.actions")
    assert "transitions" in found
    assert not found & {"hydra", "omegaconf", "torch", "yaml"}

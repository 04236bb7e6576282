"""Rules of the user's own: where they are found, and what is said when they are not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from elastic_fsm.plugins import GROUP, rules_for
from elastic_fsm.problems import BadInput

if TYPE_CHECKING:
    from pathlib import Path

RULE = "from elastic_fsm import condition, action, delay\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A module in a folder; it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)

    def make(name: str, text: str, folder: str = "") -> Path:
        path = tmp_path / folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(RULE + text)
        return path

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A package with an entry point, as pip leaves it."""

    def make(package: str, value: str) -> None:
        site = tmp_path / "site"
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\nours = {value}\n")
        monkeypatch.syspath_prepend(str(site))

    return make


def problem_of(names, folders=()):
    with pytest.raises(BadInput) as found:
        rules_for(names, folders)
    (problem,) = found.value.problems
    assert problem.path == "plugins"
    return problem


@pytest.mark.parametrize("folder", ["", "beside"])
def test_a_module_is_found(write, tmp_path, folder):
    write("found_rules", "@condition\ndef sunny(event, facts):\n    'The sun.'\n", folder)
    path = list(sys.path)
    registry = rules_for(["found_rules"], [tmp_path / "beside"])
    assert registry.find("condition", "sunny").doc == "The sun."
    assert registry.find("condition", "restart_allowed")
    assert sys.path == path


def test_what_is_installed_is_not_hidden(write):
    write("json", "raise OSError")
    assert problem_of(["json"]).what == "the plugin 'json' has no rules in it"


def test_a_module_of_a_package(write, tmp_path):
    write("rules", "@delay\ndef soon(facts, settings):\n    return 1\n", "packaged")
    assert rules_for(["packaged.rules"]).find("delay", "soon")
    assert "'packaged.rulse'" in problem_of(["packaged.rulse"]).what


def test_no_such_module(write, tmp_path):
    write("my_rules", "")
    problem = problem_of(["my_rulse"], [tmp_path / "elsewhere"])
    assert problem.what == "there is no module 'my_rulse'"
    assert problem.fix.startswith("did you mean 'my_rules'? looked in ")
    assert str(tmp_path / "elsewhere") in problem.fix


@pytest.mark.parametrize("name", ["", ".rules", "../rules", "rules/"])
def test_what_names_no_module(name):
    problem = problem_of([name])
    assert problem.what == f"{name!r} names no module"
    assert "as in an import" in problem.fix


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing'", 2),
        ("def f(:\n", "SyntaxError: invalid syntax", 2),
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero", 3),
        ("raise SystemExit(3)\n", "SystemExit: 3", 2),
        ("def f():\n    raise KeyError('x')\nf()\n", "KeyError: 'x'", 3),
        (
            "@condition\ndef f(event, facts):\n    pass\n@action(answer=['x'])\ndef g(): ...\n",
            "TypeError",
            5,
        ),
    ],
    ids=["import", "syntax", "error", "exit", "deep", "decorator"],
)
def test_a_module_that_cannot_be_imported(write, text, what, line):
    path = write("bad_rules", text)
    problem = problem_of(["bad_rules"])
    assert problem.what.startswith(f"the plugin 'bad_rules' cannot be used: {what}")
    assert problem.where == f"{path}:{line}"


def test_names_that_clash(write):
    ours = write("clash_one", "@condition\ndef worker_failed(event, facts): ...\n")
    problem = problem_of(["clash_one"])
    assert "two conditions are named 'worker_failed': elastic_fsm.conditions" in problem.what
    assert problem.where == str(ours)
    write("clash_two", "@action\ndef tell(agent, event): ...\n")
    write("clash_three", "@action\ndef tell(agent, event): ...\n")
    assert "two actions are named 'tell'" in problem_of(["clash_two", "clash_three"]).what


def test_what_is_wrong_with_several_is_told_together(write):
    write("fine_rules", "@condition\ndef sunny(event, facts): ...\n")
    write("empty_rules", "")
    with pytest.raises(BadInput) as found:
        rules_for(["empty_rules", "fine_rules", "none_such"])
    assert len(found.value.problems) == 2


# -- entry points ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["offered_rules", "offered_rules:sunny"])
def test_an_installed_package_may_offer_rules(write, install, value):
    write("offered_rules", "@condition\ndef sunny(event, facts): ...\n", "site")
    install("offering", value)
    registry = rules_for([])
    assert "offered_rules" not in sys.modules
    assert registry.find("condition", "sunny")
    assert registry.find("condition", "rainy") is None
    assert "sunny" in registry.suggest("condition", "suny")


def test_nothing_is_looked_through_for_names_that_are_known(write, install):
    write("costly_rules", "raise OSError('too early')\n", "site")
    install("offering", "costly_rules")
    registry = rules_for([])
    assert registry.find("action", "stop_workers")
    with pytest.raises(BadInput, match="the rules 'ours' of offering cannot be used: OSError"):
        registry.find("action", "sotp_workers")


def test_the_shipped_machines_need_no_look_through_what_is_installed(write, install):
    from elastic_fsm.machine import load_machine
    from elastic_fsm.testing import settings_for

    write("costly_rules", "raise OSError('too early')\n", "site")
    install("offering", "costly_rules")
    for name in ("elastic", "fail_fast"):
        values = settings_for(name)
        assert load_machine(values["machine"], rules_for([]), values)

"""The pages about own machines, scenarios and tests, carried out as they stand.

A block that begins with ``# file: NAME`` is written to that file; of a console block each
``elastic-fsm check`` and ``simulate`` is run, and must print what stands below it (``...`` stands
for anything).
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.scenario.script import parse_script, read_script
from elastic_fsm.scenario.simulating import Stage, look_again

DOCS = Path(__file__).parent.parent.parent / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((DOCS / page).read_text())


def commands(block: str) -> list[tuple[list[str], str]]:
    """Each command of a console block with what it prints."""
    parts = re.split(r"^\$ elastic-fsm ", block, flags=re.MULTILINE)[1:]
    return [(shlex.split(p.partition("\n")[0]), p.partition("\n")[2]) for p in parts]


@pytest.fixture
def _forget_modules():
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.usefixtures("_forget_modules")
def test_the_tutorial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, text in blocks("own_machine.md"):
        if kind == "console":
            for words, expected in commands(text):
                run_command_line(words)
                told = capsys.readouterr()
                same = doctest.OutputChecker().check_output(expected, told.out, doctest.ELLIPSIS)
                assert same, f"{shlex.join(words)} says:\n{told.out}{told.err}"
                ran += 1
        else:
            name = re.match(r"# file: (\S+)\n", text)[1]
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    assert ran == 9
    assert (tmp_path / "restarts.txt").read_text() == "workers_stopped in BACKOFF\n"


def test_the_scenarios_of_the_page(tmp_path):
    texts = [text for kind, text in blocks("scenarios.md") if kind == ""]
    assert len(texts) == 2
    before, now = look_again(parse_script(texts[0]), Stage())
    assert now == before
    assert Stage().play(parse_script(texts[1])).result.exit_code == 0


def test_the_test_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (source,) = [text for kind, text in blocks("scenarios.md") if kind == "python"]
    (crash, _) = [text for kind, text in blocks("scenarios.md") if kind == ""]
    (tmp_path / "crash.txt").write_text(crash)
    (tmp_path / "job.yaml").write_text("spec: {local_world_size: 1}\n")
    names: dict = {}
    exec(source, names)
    names["test_my_policy"]()
    (tmp_path / "crash.txt").write_text(crash.replace("exit code 143", "exit code 0"))
    with pytest.raises(AssertionError):
        names["test_my_policy"]()
    assert read_script(tmp_path / "crash.txt").machines == ()


@pytest.mark.slow
def test_the_tests_of_the_page(tmp_path):
    """As a developer of a backend would run them."""
    for _, text in [block for block in blocks("testing.md") if block[0] == "python"]:
        (tmp_path / re.match(r"# file: (\S+)\n", text)[1]).write_text(text)
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(pytest_run, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert len(list(tmp_path.glob("test_*.py"))) == 3


def test_the_two_machines_of_the_page_about_transitions_are_the_same():
    """The library's own machine and ours go the same way for the same events."""
    import transitions
    import yaml

    from elastic_fsm.binding import bind
    from elastic_fsm.events import Event
    from elastic_fsm.facts import Facts
    from elastic_fsm.machine import Machine
    from elastic_fsm.reading import read_machine
    from elastic_fsm.registry import Registry, action, condition

    python, ours = (text for kind, text in blocks("from_transitions.md") if kind)

    class Model:
        complete = False

        def is_complete(self, data):
            return self.complete

        def start_work(self, data): ...

    @condition
    def is_complete(event, facts):
        return Model.complete

    @action
    def start_work(agent, event): ...

    model = Model()
    exec(python, {"Machine": transitions.Machine, "model": model})
    registry = Registry()
    for rule in (is_complete, start_work):
        registry._add_marked(rule)
    spec, problems = read_machine(yaml.safe_load(ours))
    rules, unbound = bind(spec, registry, {})
    assert problems + unbound == []
    machine = Machine(spec, rules)
    for event, complete in [("work", False), ("finished", False), ("finished", True)]:
        Model.complete = complete
        model.trigger(event)
        machine.step(Event(event), Facts())
        assert machine.state.name == model.state
    assert model.state == "DONE"

"""The pages about agents and launchers of one's own, carried out as they stand.

A block that begins with ``# file: NAME`` is written to that file, or added to it when it says
``continued``. Each command of a console block is run by a shell and must print what stands below
it (``...`` stands for anything). There are no other blocks.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elastic_fsm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+?)(, continued)?\n")


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text())


def run(command: str, folder: Path) -> str:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # As for somebody at a terminal: pytest says more in a continuous integration.
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**inherited, "PATH": programs, "PYTEST_ADDOPTS": "-p no:cacheprovider"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def write(text: str, folder: Path) -> None:
    name, continued = FILE.match(text).groups()
    with open(folder / name, "a" if continued else "w") as file:
        file.write("\n" + text.partition("\n")[2].lstrip("\n") if continued else text)


def console(text: str, folder: Path) -> int:
    """Run the commands of a block; how many there were."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for part in parts:
        command, _, expected = part.partition("\n")
        got = run(command, folder)
        same = doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS)
        assert same, f"{command} says:\n{got}\nand not:\n{expected}"
    return len(parts)


@pytest.mark.parametrize(
    ("page", "commands"),
    [("elastic_agent.md", 3), ("custom_agent.md", 5), ("custom_launcher.md", 4)],
)
def test_every_block_of_the_page(page, commands, tmp_path):
    ran = 0
    for kind, text in blocks(page):
        if kind == "console":
            ran += console(text, tmp_path)
        else:
            write(text, tmp_path)
    assert ran == commands


def test_the_tutorial_builds_up_to_the_example(tmp_path):
    for _, text in blocks("custom_agent.md"):
        if text.startswith("# file: my_agent.py"):
            write(text, tmp_path)
    built = (tmp_path / "my_agent.py").read_text().partition("\n")[2]
    example = (ROOT / "examples" / "simple_agent.py").read_text()
    assert example.endswith(built)


def test_the_example_without_a_command_says_how_to_use_it(tmp_path):
    got = run(f"python {ROOT / 'examples' / 'simple_agent.py'} 2>&1; echo $?", tmp_path)
    assert got == "usage: simple_agent.py -- COMMAND [ARGUMENT ...]\n2\n"


@pytest.mark.parametrize(
    ("example", "output"),
    [
        ("agent_function.py", "the shares are {0: 249500, 1: 250000}\nthe sum is 499500\n"),
        (
            "agent_binary.py",
            "[trainer0]:device 0: rank 0 of 2 meets the others at 127.0.0.1\n"
            "[trainer1]:device 1: rank 1 of 2 meets the others at 127.0.0.1\n",
        ),
    ],
)
def test_the_programs_that_run_a_local_agent(example, output, tmp_path):
    got = run(f"python {ROOT / 'examples' / example} | sort", tmp_path)
    assert got == "".join(sorted(output.splitlines(keepends=True)))


def test_the_page_of_the_api_has_every_public_name():
    text = (ROOT / "docs" / "api.md").read_text()
    shown = {name.rpartition(".")[2] for name in re.findall(r"^\.\. auto\w+:: (\S+)", text, re.M)}
    assert set(elastic_fsm.__all__) - {"__version__"} <= shown


def test_the_picture_of_the_agent_is_that_of_its_source():
    assert run("python docs/pictures/draw.py --check", ROOT) == ""

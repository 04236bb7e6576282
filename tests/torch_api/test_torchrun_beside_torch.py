"""The same command lines given to torch's torchrun and to ours: workers find the same.

What may differ is in ``DIFFERENT``, each with its reason; ``docs/from_torchrun.md`` says the same.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torchrun_lines import LINES

from elastic_fsm.rendezvous.ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.one_share,
    pytest.mark.timeout(900),
]

HERE = Path(__file__).parent
AT_ONCE = 3


# -- running them ------------------------------------------------------------------------------


def furnish(folder):
    """The folder in which a command line runs."""
    dump = (HERE / "torchrun_dump.py").read_text()
    folder.mkdir(parents=True)
    (folder / "dumps").mkdir()
    programs = {
        "dump.py": dump,
        "plain": dump,
        "direct.py": f"#!{sys.executable}\n{dump}",
        "runs.sh": f'#!/bin/sh\nexec {sys.executable} dump.py "$@"\n',
        "mypython": f'#!/bin/sh\nVIA=mypython exec {sys.executable} "$@"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def commands(base, side):
    """What is to be run by one side: as data, one entry for each node."""
    kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}
    for number, (name, line) in enumerate(LINES.items()):
        folder = base / side / str(number)
        furnish(folder)
        port = str(free_port("127.0.0.1"))
        env = {key: text.replace("{here}", str(folder)) for key, text in line.env.items()}
        for node, words in enumerate(line.nodes):
            words = words.replace("{port}", port).replace("{here}", str(folder))
            yield {
                "name": name,
                "module": f"torch.distributed.{line.module}",
                "argv": shlex.split(words),
                "env": {**inherited, "DUMP_DIR": str(folder / "dumps"), **env},
                "cwd": str(folder),
                "out": str(folder / f"out{node}"),
                "err": str(folder / f"err{node}"),
                "together": node < len(line.nodes) - 1,
            }


def run_torchs(base):
    todo = list(commands(base, "torch"))
    (base / "todo.json").write_text(json.dumps(todo))
    argv = [sys.executable, HERE / "torchrun_forks.py", base / "todo.json", base / "codes.json"]
    subprocess.run(argv, check=True)
    return todo, json.loads((base / "codes.json").read_text())


def run_ours(base):
    todo = list(commands(base, "ours"))

    def run(entry):
        module = entry["module"].replace("torch.", "elastic_fsm.")
        with open(entry["out"], "w") as out, open(entry["err"], "w") as err:
            argv = [sys.executable, "-m", module, *entry["argv"]]
            ends = {"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL}
            return subprocess.run(argv, cwd=entry["cwd"], env=entry["env"], **ends).returncode

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return todo, list(pool.map(run, todo))


class Side:
    """What one side left behind, by the name of the line."""

    def __init__(self, todo, codes):
        self.folders = {entry["name"]: Path(entry["cwd"]) for entry in todo}
        self.codes = {}
        for entry, code in zip(todo, codes, strict=True):
            self.codes.setdefault(entry["name"], []).append(code)

    def dumps(self, name):
        found = {}
        for path in sorted((self.folders[name] / "dumps").glob("*.json")):
            text = path.read_text().replace(str(self.folders[name]), "{here}")
            found[path.stem] = json.loads(text)
        return found

    def console(self, name, stream):
        """The lines of workers, of all nodes."""
        texts = [path.read_text() for path in self.folders[name].glob(f"{stream}[0-9]")]
        lines = [line for text in texts for line in text.splitlines()]
        return [line for line in lines if line.endswith(("apple", "pear"))]

    def files(self, name):
        """What is in the log folders; the folder of the run is RUN."""
        found = {}
        for folder in self.folders[name].glob("logs*"):
            for path in folder.rglob("*"):
                _, *rest = path.relative_to(folder).parts
                # Copies of lines come from several workers, in no order.
                text = sorted(path.read_text().splitlines()) if path.is_file() else None
                found["/".join([folder.name, "RUN", *rest])] = text
        return found

    def errors(self, name):
        return [path.read_text() for path in sorted(self.folders[name].glob("err[0-9]"))]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    base = tmp_path_factory.mktemp("torchrun")
    yield base
    shutil.rmtree(base)


@pytest.fixture(scope="module")
def theirs(base):
    return Side(*run_torchs(base))


@pytest.fixture(scope="module")
def ours(base):
    return Side(*run_ours(base))


@pytest.fixture(scope="module")
def sides(theirs, ours):
    return theirs, ours


# -- what may differ ---------------------------------------------------------------------------


def is_port(text):
    return text.isdecimal() and 0 < int(text) < 65536


def place_of_errors(path):
    """The part of a worker's error file that does not depend on chance."""
    return Path(path).parts[-3:]


# The variable, what must hold of torch's value and ours (None: not set), and why.
DIFFERENT = {
    "MASTER_ADDR": (
        lambda theirs, ours: ours in (theirs, "127.0.0.1"),
        "a single node meets on the loopback interface, which needs no name service",
    ),
    "MASTER_PORT": (
        lambda theirs, ours: is_port(theirs) and is_port(ours),
        "new for each start, so that a restart reads no keys of the attempt before",
    ),
    "TORCHELASTIC_USE_AGENT_STORE": (
        lambda theirs, ours: ours == "False",
        "the workers' store is their own, for the same reason",
    ),
    "TORCHELASTIC_RUN_ID": (
        lambda theirs, ours: ours != "none" and (theirs == "none" or len(theirs) == 36),
        "that of a single node is the given one, else new; torchrun's is new, or 'none'",
    ),
    "TORCHELASTIC_ERROR_FILE": (
        lambda theirs, ours: place_of_errors(theirs) == place_of_errors(ours),
        "below a folder with a name of chance",
    ),
    "PYTHONUNBUFFERED": (
        lambda theirs, ours: theirs is None and ours == "1",
        "in the place of python -u, and for programs that start python themselves",
    ),
    "ELASTIC_FSM_WORKER": (
        lambda theirs, ours: theirs is None,
        "by it everything that workers start is found at the end",
    ),
}
# Set by the shells that workers are started through, not by an agent.
SHELLS = {"PWD", "OLDPWD", "SHLVL", "_"}


def differences(theirs, ours):
    """By variable: where the two environments differ in a way that they must not."""
    found = {}
    for name in (theirs.keys() | ours.keys()) - SHELLS:
        pair = theirs.get(name), ours.get(name)
        may, _ = DIFFERENT.get(name, (None, ""))
        if pair[0] != pair[1] and not (may and may(*pair)):
            found[name] = pair
    return found


# -- the comparison ----------------------------------------------------------------------------


def test_there_are_enough_lines_and_torchrun_runs_them(theirs):
    assert len(theirs.codes) == len(LINES) >= 30


@pytest.mark.parametrize("name", LINES)
def test_the_workers_find_the_same(sides, name):
    theirs, ours = (side.dumps(name) for side in sides)
    assert ours.keys() == theirs.keys(), sides[1].errors(name)
    wanted = LINES[name].workers or len(os.sched_getaffinity(0))
    assert len({who.partition(".")[0] for who in ours}) == wanted
    for who, found in ours.items():
        assert found["argv"] == theirs[who]["argv"]
        assert found["cwd"] == theirs[who]["cwd"]
        assert found["unbuffered"]
        assert differences(theirs[who]["env"], found["env"]) == {}


@pytest.mark.parametrize("name", LINES)
def test_it_ends_the_same(sides, name):
    theirs, ours = (side.codes[name] for side in sides)
    assert ours == [LINES[name].code] * len(LINES[name].nodes), sides[1].errors(name)
    assert theirs == ours, sides[0].errors(name)


@pytest.mark.parametrize("name", LINES)
def test_the_files_are_the_same(sides, name):
    theirs, ours = (side.files(name) for side in sides)
    assert ours == theirs


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("stream", ["out", "err"])
def test_the_console_shows_the_same(sides, name, stream):
    theirs, ours = (side.console(name, stream) for side in sides)
    # torchrun loses and doubles teed lines now and then; we must not.
    assert len(ours) == len(set(ours)) or "restart" in name
    assert set(theirs) <= set(ours)
    assert len(set(ours)) <= max(len(set(theirs)), len(sides[1].dumps(name)))


def test_ranks_fit_together_across_nodes(sides):
    for name in ("two static nodes", "two elastic nodes"):
        found = sides[1].dumps(name).values()
        for variable in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
            assert len({dump["env"][variable] for dump in found}) == 1, variable
        ranks = sorted(int(dump["env"]["RANK"]) for dump in found)
        assert ranks == list(range(len(ranks)))

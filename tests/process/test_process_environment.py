"""What a worker finds: the variables of torchrun's contract, its folder, its standard input."""

from __future__ import annotations

import json
import os
import sys

import pytest

pytestmark = pytest.mark.slow

# Each worker writes what it sees to dump.<attempt>.<rank>.
DUMP = """\
import json, os, pathlib, sys
here = pathlib.Path(os.environ["DUMP"])
name = f"dump.{os.environ['TORCHELASTIC_RESTART_COUNT']}.{os.environ['RANK']}"
seen = {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv, "stdin": sys.stdin.read()}
(here / name).write_text(json.dumps(seen))
sys.exit(int(os.environ.get("END", 0)))
"""


@pytest.fixture
def dump(scene):
    """``dump(words…) -> {rank: what it saw}``; ``attempt`` chooses among several."""
    scene.write("dump.py", DUMP)
    scene.env["DUMP"] = str(scene.folder)

    def run(*words: str, attempt: int = 0, code: int = 0, **options):
        run = scene.run(*words, str(scene.folder / "dump.py"), **options)
        assert run.code == code, run.err
        return seen(attempt)

    def seen(attempt: int):
        found = {}
        for path in scene.folder.glob(f"dump.{attempt}.*"):
            found[int(path.name.split(".")[-1])] = json.loads(path.read_text())
        return dict(sorted(found.items()))

    run.seen = seen
    return run


def values(found, name: str) -> list:
    return [one["env"].get(name) for one in found.values()]


def test_the_contract(scene, dump):
    """Every variable that torch documents; what ranks share is the same for all."""
    found = dump("-n", "4", "spec.max_restarts=3", "spec.role=trainer", "run_id=job-7")
    assert list(found) == [0, 1, 2, 3]
    for name in ("RANK", "LOCAL_RANK", "ROLE_RANK"):
        assert values(found, name) == ["0", "1", "2", "3"], name
    shared = {
        "GROUP_RANK": "0",
        "ROLE_NAME": "trainer",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": "job-7",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    for name, value in shared.items():
        assert values(found, name) == [value] * 4, name
    assert len(set(values(found, "MASTER_PORT"))) == 1
    (node,) = (scene.folder / "elastic_runs" / "job-7").iterdir()
    files = [str(node / "attempt_0" / str(rank) / "error.json") for rank in range(4)]
    assert values(found, "TORCHELASTIC_ERROR_FILE") == files
    assert values(found, "CUDA_VISIBLE_DEVICES") == [None] * 4
    assert {one["cwd"] for one in found.values()} == {str(scene.folder)}


def test_the_agents_own_environment_comes_through(dump):
    env = {"MINE": "a=b\n c", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "PYTHONUNBUFFERED": ""}
    found = dump("-n", "2", env=env)
    for name, value in env.items():
        assert values(found, name) == [value] * 2


@pytest.mark.parametrize(
    ("count", "inherited", "words", "threads"),
    [
        (2, "7", [], "7"),
        (2, None, [], "1"),
        (2, None, ["spec.env.OMP_NUM_THREADS=5"], "5"),
        (2, "7", ["spec.env.OMP_NUM_THREADS=5"], "5"),
        (1, None, [], None),
        (1, "7", [], "7"),
    ],
)
def test_I7_threads(dump, count, inherited, words, threads):
    env = {"OMP_NUM_THREADS": inherited} if inherited else {}
    found = dump("-n", str(count), *words, env=env)
    assert values(found, "OMP_NUM_THREADS") == [threads] * count


def test_the_meeting_place_is_new_for_each_attempt(scene, dump):
    found = dump("-n", "1", "spec.max_restarts=2", "spec.env.END=3", attempt=2, code=3)
    attempts = [dump.seen(0), dump.seen(1), found]
    assert [values(one, "TORCHELASTIC_RESTART_COUNT") for one in attempts] == [["0"], ["1"], ["2"]]
    assert len({values(one, "MASTER_PORT")[0] for one in attempts}) == 3
    assert len({values(one, "TORCHELASTIC_ERROR_FILE")[0] for one in attempts}) == 3
    assert len({values(one, "TORCHELASTIC_RUN_ID")[0] for one in attempts}) == 1


def test_the_meeting_place_can_be_given(scene, dump):
    found = dump("-n", "2", "spec.master_addr=node7", "spec.master_port=29511")
    assert values(found, "MASTER_ADDR") == ["node7"] * 2
    assert values(found, "MASTER_PORT") == ["29511"] * 2
    (journal,) = scene.folder.glob("elastic_runs/latest/*/journal.jsonl")
    assert '"master_addr":"node7","master_port":29511' in journal.read_text()


@pytest.mark.parametrize(
    ("listed", "devices"),
    [
        (None, ["0", "1"]),
        ("4,6", ["4", "6"]),
        ("GPU-8f1c, MIG-7a/2/0,5", ["GPU-8f1c", "MIG-7a/2/0"]),
    ],
)
def test_I5_every_worker_sees_one_device(dump, listed, devices):
    env = {"CUDA_VISIBLE_DEVICES": listed} if listed else {}
    found = dump("-n", "2", "spec.virtual_local_rank=true", env=env)
    assert values(found, "CUDA_VISIBLE_DEVICES") == devices
    assert values(found, "LOCAL_RANK") == ["0", "0"]
    assert values(found, "RANK") == ["0", "1"]
    assert values(found, "LOCAL_WORLD_SIZE") == ["2", "2"]


def test_auto_is_one_worker_for_each_device(dump):
    found = dump("-n", "auto", env={"CUDA_VISIBLE_DEVICES": "0,GPU-8f1c,2"})
    assert values(found, "CUDA_VISIBLE_DEVICES") == ["0,GPU-8f1c,2"] * 3


def test_I8_environment_by_rank(scene, dump):
    scene.write("job.yaml", "spec: {env: {A: all, B: all}, worker_env: {1: {B: one, C: 0115}}}\n")
    found = dump("-n", "3", "-c", "job.yaml", "spec.worker_env.2.A=two", env={"A": "outer"})
    assert values(found, "A") == ["all", "all", "two"]
    assert values(found, "B") == ["all", "one", "all"]
    assert values(found, "C") == [None, "0115", None]


@pytest.mark.parametrize("cwd", ["deep/er", "absolute"])
def test_the_working_folder(scene, dump, cwd):
    folder = scene.folder / "deep" / "er"
    folder.mkdir(parents=True)
    found = dump(f"spec.cwd={folder if cwd == 'absolute' else cwd}")
    assert found[0]["cwd"] == str(folder)


@pytest.mark.parametrize(("words", "reader"), [([], None), (["spec.stdin=1"], 1)])
def test_standard_input_goes_to_one_rank(scene, dump, words, reader):
    read, write = scene.pipe()
    os.write(write, b"two\nlines\n")
    scene.close_fd(write)
    found = dump("-n", "3", *words, stdin=read)
    for rank, one in found.items():
        assert one["stdin"] == ("two\nlines\n" if rank == reader else "")


def test_an_agent_inside_a_worker(scene, dump):
    """Its workers get its own ranks and meeting place, and end with it."""
    inner = [sys.executable, "-m", "elastic_fsm", "run", "run_dir=inner", "run_id=in", "-n", "2"]
    run = scene.run("-n", "1", "run_id=out", "spec.role=outer", "--", *inner, "dump.py")
    assert run.code == 0, run.err
    found = dump.seen(0)
    assert values(found, "WORLD_SIZE") == ["2", "2"]
    assert values(found, "RANK") == ["0", "1"]
    assert values(found, "ROLE_NAME") == ["default"] * 2
    assert values(found, "TORCHELASTIC_RUN_ID") == ["in"] * 2
    ports = {r["event"]["data"]["world"]["master_port"] for r in run.journal[1:] if _is_world(r)}
    assert not ports & {int(port) for port in values(found, "MASTER_PORT")}


def _is_world(record) -> bool:
    return record["event"]["name"] == "rendezvous_completed"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_an_agent_inside_a_worker_is_stopped(scene, name):
    inner = [sys.executable, "-m", "elastic_fsm", "run", "run_dir=inner", "-n", "2"]
    script = ["sh", "-c", 'echo >"$BELL"; (setsid sleep "$SLEEP" &); exec sleep "$SLEEP"']
    run = scene.start("-n", "2", "--", *inner, *["--", *script])
    scene.bell.wait(4)
    run.enters("HEALTHY")
    watch = scene.watch()
    run.signal(name)
    watch.ended()
    assert run.wait() == (143 if name == "SIGTERM" else -9)


def test_I2_a_worker_that_is_a_hydra_application(scene):
    """Ours leaks no words, folders or variables; its own outputs are where it puts them."""
    scene.write("conf/config.yaml", "lr: 0.1\nmachine: theirs\n")
    scene.write(
        "app.py",
        "import os, sys, hydra\n"
        "@hydra.main(config_path='conf', config_name='config', version_base=None)\n"
        "def main(cfg):\n"
        "    print(cfg.lr, cfg.machine, os.getcwd() == os.environ['PWD'],\n"
        "          sorted(n for n in os.environ if 'HYDRA' in n))\n"
        "main()\n",
    )
    words = ["logs.prefix=", "spec.env.X=1", "-n", "2"]
    run = scene.run(*words, "app.py", "lr=3", env={"PWD": str(scene.folder)})
    assert run.code == 0, run.err
    assert run.out.splitlines() == ["3 theirs True []"] * 2
    names = {path.name for path in scene.folder.iterdir()} - {"bell", "gate"}
    assert names == {"conf", "app.py", "elastic_runs", "outputs"}
    assert len(list((scene.folder / "elastic_runs").iterdir())) == 2  # the run, and `latest`


def test_I4_one_meaning_however_it_is_said(scene):
    """The same run by a file, by overrides and by the calling program: one resolved run."""
    scene.write("job.yaml", "spec: {local_world_size: 3, max_restarts: 2, env: {A: 1e3}}\n")
    by_file = scene.run("-c", "job.yaml", verb="config").out
    words = ["spec.local_world_size=3", "spec.max_restarts=2", "spec.env.A=1e3"]
    assert scene.run(*words, verb="config").out == by_file
    origin = scene.run("-c", "job.yaml", "spec.max_restarts=2", "--origin", verb="config").out
    lines = [line for line in origin.splitlines() if "local_world_size" in line or "max_re" in line]
    assert "job.yaml:1" in lines[0]
    assert "command line" in lines[1]

"""torchrun's words in ours: what values come of the options, and what is refused."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from elastic_fsm.cli import run_command_line
from elastic_fsm.config import compose
from elastic_fsm.distributed import launch as legacy
from elastic_fsm.distributed import run as mirror
from elastic_fsm.problems import BadInput
from elastic_fsm.torchrun import counts, nodes
from elastic_fsm.torchrun.options import add_launch_options
from elastic_fsm.torchrun.printing import describe, overrides
from elastic_fsm.torchrun.translation import translate

PYTHON = [sys.executable, "-u"]


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    """Nothing in the environment that torchrun reads, and a folder with a script."""
    for name in list(os.environ):
        if name.startswith(("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_", "PYTHON_EXEC")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")


def translated(text, parse=mirror.parse_args):
    return translate(parse(shlex.split(text)))


def values(text):
    return translated(text).values


def command(text, **more):
    found = translated(text, **more)
    return found.command, found.module


# Everything that comes of the least command line.
LEAST = {"exit_code": "torchrun", "spec.stdin": 0, "stop.grace": 30}


def test_the_least():
    found = translated("train.py")
    assert found.values == LEAST
    assert found.choices == {"rendezvous": "standalone", "logs": "torchrun"}
    assert (found.command, found.module) == (["train.py"], False)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("--nproc-per-node=4", "spec.local_world_size", 4),
        ("--nproc_per_node 4", "spec.local_world_size", 4),
        ("--max-restarts=3", "spec.max_restarts", 3),
        ("--max_restarts 3", "spec.max_restarts", 3),
        ("--role=trainer", "spec.role", "trainer"),
        ("--monitor-interval 5", "spec.monitor_interval", 5.0),
        ("--event-log-handler=console", "spec.event_log_handler", "console"),
        ("--local-addr=10.0.0.7", "spec.local_addr", "10.0.0.7"),
        ("--virtual-local-rank", "spec.virtual_local_rank", True),
        ("--shutdown-timeout=60", "stop.grace", 60),
        ("--signals-to-handle=SIGTERM,SIGUSR1", "stop.signals", ["SIGTERM", "SIGUSR1"]),
        ("-r 3", "logs.redirects", "3"),
        ("--redirects=0:1,1:2", "logs.redirects", "0:1,1:2"),
        ("-t 0:3", "logs.tee", "0:3"),
        ("--log-dir=/var/log/x", "logs.log_dir", "/var/log/x"),
        ("--local-ranks-filter=2,0", "logs.local_ranks_filter", [0, 2]),
        ("--duplicate-stdout-filters=a,b", "logs.stdout_filters", ["a", "b"]),
        ("--duplicate_stderr_filters a,,b,c", "logs.stderr_filters", ["a,b", "c"]),
        ("--logs-specs=mine", "logs.specs", "mine"),
        ("--rdzv-id=job", "run_id", "job"),
    ],
)
def test_options_that_are_values(text, key, value):
    assert values(f"{text} train.py") == {**LEAST, key: value}


def test_the_start_method_is_taken_and_has_no_effect():
    assert values("--start-method=fork train.py") == LEAST


# -- nodes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "--standalone",
        "--nnodes=1",
        "--nnodes=1:1 --rdzv-backend=static",
        "--standalone --rdzv-id=ignored --rdzv-backend=etcd --rdzv-endpoint=h:1",
        "--standalone --nnodes=1:4",
        "--nnodes=1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0",
    ],
)
def test_a_single_node_meets_nobody(text):
    found = translated(f"{text} train.py")
    assert found.values == LEAST
    assert found.choices["rendezvous"] == "standalone"


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("--master-port=1234", None, 1234),
        ("--master_addr=10.0.0.1 --master_port 1234", "10.0.0.1", 1234),
        ("--rdzv-endpoint=h:99", "h", 99),
        ("--rdzv-endpoint=[::1]:99", "::1", 99),
    ],
)
def test_the_meeting_place_of_a_single_static_node_is_the_given_one(text, address, port):
    found = values(f"{text} train.py")
    assert found["spec.master_addr"] == (address or "127.0.0.1")
    assert found["spec.master_port"] == port


def test_static_nodes():
    text = "--nnodes=2 --node-rank=1 --master-addr=h0 --master-port=77 --rdzv-id=j train.py"
    found = translated(text)
    assert found.choices["rendezvous"] == "static"
    assert found.values == {
        **LEAST,
        "run_id": "j",
        "rendezvous.endpoint": "h0:77",
        "rendezvous.min_nodes": 2,
        "rendezvous.max_nodes": 2,
        "rendezvous.node_rank": 1,
    }
    assert values("--nnodes=2 train.py")["rendezvous.endpoint"] == "127.0.0.1:29500"
    assert values("--nnodes=2 train.py")["run_id"] == "none"


def test_elastic_nodes():
    text = "--nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=h --rdzv-conf=a=1,b=x train.py"
    found = translated(text)
    assert found.choices["rendezvous"] == "c10d"
    assert found.values == {
        **LEAST,
        "run_id": "none",
        "rendezvous.endpoint": "h",
        "rendezvous.max_nodes": 4,
        "rendezvous.options": {"a": 1, "b": "x"},
    }


def test_the_backend_of_a_plug_in():
    found = translated("--rdzv-backend=mine --rdzv-endpoint=h:1 train.py")
    assert found.values["rendezvous.name"] == "mine"
    assert compose(overrides(found)).values["rendezvous"]["join_timeout"] is None


# -- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "module"),
    [
        ("train.py --lr 1 -x --", ["train.py", "--lr", "1", "-x", "--"], False),
        ("-m pkg.train a", ["pkg.train", "a"], True),
        ("train a", [*PYTHON, "train", "a"], False),
        ("--no-python ./run a", ["./run", "a"], False),
        ("--no-python ./run.py a", ["env", "./run.py", "a"], False),
        (
            "--run-path --no-python /a/t.py b",
            [*PYTHON, "-m", "elastic_fsm.torchrun.run_path", "/a/t.py", "b"],
            False,
        ),
    ],
)
def test_the_command(text, expected, module):
    assert command(text) == (expected, module)


def test_launch_passes_the_local_rank():
    assert command("train.py a", parse=legacy.parse_args)[0] == [
        "train.py",
        "--local-rank=${local_rank}",
        "a",
    ]
    assert command("--use_env train.py a", parse=legacy.parse_args)[0] == ["train.py", "a"]
    with pytest.raises(BadInput, match="--use-env"):
        command("--no-python ./run", parse=legacy.parse_args)


# -- the environment ---------------------------------------------------------------------------


def test_variables_are_read_and_lose_to_options(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_MAX_RESTARTS", "2")
    monkeypatch.setenv("PET_MODULE", "1")
    monkeypatch.setenv("PET_DUPLICATE_STDOUT_FILTERS", "a,b")
    found = translated("--max-restarts=5 pkg")
    assert found.values["spec.local_world_size"] == 3
    assert found.values["spec.max_restarts"] == 5
    assert found.values["logs.stdout_filters"] == ["a", "b"]
    assert found.module


def test_the_grace_of_the_environment(monkeypatch):
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "2.5")
    assert values("train.py")["stop.grace"] == 2.5
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon")
    with pytest.raises(BadInput, match="TORCH_ELASTIC_SHUTDOWN_TIMEOUT: 'soon'"):
        values("train.py")


@pytest.mark.parametrize(
    ("template", "prefix"),
    [
        ("[${role_name}${local_rank}]:", "[{role}{local_rank}]:"),
        ("$rank {x} ", "{rank} {{x}} "),
        ("<${other}> ", "<${{other}}> "),
        ("", ""),
    ],
)
def test_the_template_of_prefixes(monkeypatch, template, prefix):
    monkeypatch.setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", template)
    assert values("train.py")["logs.prefix"] == prefix


# -- counts ------------------------------------------------------------------------------------


def test_numbers_of_nodes():
    assert counts.parse_min_max_nnodes("4") == (4, 4)
    assert counts.parse_min_max_nnodes("1:4") == (1, 4)
    for text in ("", "a", ":2", "1:", "1:2:3"):
        with pytest.raises(ValueError, match="is no number of nodes"):
            counts.parse_min_max_nnodes(text)


def test_numbers_of_workers(monkeypatch):
    monkeypatch.setattr(counts, "_other_devices", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    processors = len(os.sched_getaffinity(0))
    assert counts.determine_local_world_size("8") == 8
    assert counts.determine_local_world_size("cpu") == processors
    assert counts.determine_local_world_size("auto") == processors
    with pytest.raises(ValueError, match="there is no gpu on this node"):
        counts.determine_local_world_size("gpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert counts.determine_local_world_size("auto") == 3
    assert counts.determine_local_world_size("gpu") == 3


def test_other_accelerators_are_counted_by_torch(monkeypatch):
    class Torch:
        class accelerator:
            @staticmethod
            def is_available():
                return True

            @staticmethod
            def device_count():
                return 5

        class xpu(accelerator):
            pass

        class _C:
            @staticmethod
            def _get_privateuse1_backend_name():
                return "npu"

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(counts, "_OTHER_DEVICES", ("null",))  # there is such a device
    monkeypatch.setattr(counts, "import_module", lambda name: Torch)
    assert counts.determine_local_world_size("auto") == 5
    assert counts.determine_local_world_size("xpu") == 5
    with pytest.raises(ValueError, match="'npu' is no number of workers"):
        counts.determine_local_world_size("npu")


def test_without_torch(monkeypatch):
    def no_torch(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(counts, "_OTHER_DEVICES", ("null",))
    monkeypatch.setattr(counts, "import_module", no_torch)
    assert counts.determine_local_world_size("auto") == len(os.sched_getaffinity(0))
    with pytest.raises(ValueError, match="only torch could count them"):
        counts.determine_local_world_size("xpu")


# -- printing ----------------------------------------------------------------------------------

PRINTED = [
    "train.py",
    "--nproc-per-node=2 -r 1:1 -t 3 --rdzv-id='a b' train.py --lr 1e-3 '${local_rank}' '???'",
    "--role='a:b, \"c\"' --duplicate-stdout-filters='x y,\"q\",null,7' -m pkg --on yes 010",
    "--nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=[::1]:29400 --rdzv-conf=a=1,b=x=y t.py",
    "--nnodes=2 --node-rank=1 --max-restarts=3 --signals-to-handle=USR1 --run-path /t.py",
    "--role=null --log-dir=true --local-ranks-filter=1 train.py",
]


@pytest.mark.parametrize("text", PRINTED)
def test_the_line_and_the_job_file_are_the_same_run(tmp_path, text):
    found = translated(text)
    printed = describe(found)
    (tmp_path / "job.yaml").write_text(printed)
    line = shlex.split(printed.splitlines()[1].removeprefix("#"))
    assert line[:2] == ["elastic-fsm", "run"]
    cut = line.index("-m" if found.module else "--")
    assert line[cut + 1 :] == found.command
    by_line = compose(line[2:cut]).values
    by_file = compose([], job_file=tmp_path / "job.yaml").values
    assert by_file["spec"].pop("entrypoint") == found.command[0]
    assert by_file["spec"].pop("args") == found.command[1:]
    assert by_file["spec"].pop("module") == found.module
    for name in ("entrypoint", "args", "module"):
        by_line["spec"].pop(name)
    assert by_file == by_line
    assert by_line["exit_code"] == "torchrun"


def test_print_config_starts_nothing(tmp_path, capsys):
    argv = ["torchrun", "--print-config", "--set", "machine=fail_fast", "nosuch.py", "a"]
    assert run_command_line(argv) == 0
    out = capsys.readouterr().out
    assert "elastic-fsm run rendezvous=standalone logs=torchrun" in out
    assert "machine=fail_fast -- nosuch.py a\n" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


# -- bad input ---------------------------------------------------------------------------------

BAD = {
    "no script": ("", "training_script", "torchrun --help"),
    "a misspelt option": ("--nproc-per-nod=2x --rolle=x train.py", "--rolle", "'--role'"),
    "no number": ("--max-restarts=x train.py", "invalid int value: 'x'", "--help"),
    "no number of workers": ("--nproc-per-node=x train.py", "--nproc-per-node: 'x'", "auto"),
    "no workers": ("--nproc-per-node=0 train.py", "spec.local_world_size", "at least 1"),
    "no nodes": ("--nnodes=x train.py", "'x' is no number of nodes", "1:4"),
    "nodes the wrong way": ("--nnodes=4:2 train.py", "'4:2' is no number of nodes", "1:4"),
    "two of one": ("--nnodes=2:1 train.py", "'2:1' is no number of nodes", "1:4"),
    "none of one": ("--nnodes=0:1 --rdzv-backend=c10d train.py", "'0:1' is no number", "1:4"),
    "two of one, alone": ("--standalone --nnodes=2:1 train.py", "'2:1' is no number", "1:4"),
    "zero nodes": ("--nnodes=0:2 train.py", "'0:2' is no number of nodes", "1:4"),
    "nobody": ("--nnodes=1:0 train.py", "'1:0' is no number of nodes", "1:4"),
    "standalone on two": ("--standalone --nnodes=2 train.py", "is for one node", "leave"),
    "a node beyond": ("--nnodes=2 --node-rank=2 train.py", "no node 2 among 2", "from 0 to 1"),
    "a node beyond one": ("--node-rank=1 train.py", "no node 1 among 1", "--nnodes"),
    "no place to meet": ("--nnodes=2 --rdzv-backend=c10d train.py", "a place to meet", "host0"),
    "no port": ("--nnodes=2 --rdzv-endpoint=h train.py", "'h' is no host:port", "host0:29400"),
    "an unknown backend": (
        "--nnodes=2 --rdzv-backend=c01d --rdzv-endpoint=h:1 train.py",
        "unknown rendezvous 'c01d'",
        "'c10d'",
    ),
    "half an option": ("--rdzv-conf=a --nnodes=2 train.py", "'a' is no key=value", "join_"),
    "no streams": ("-r 4 train.py", "logs.redirects", "0:3,1:1"),
    "no ranks": ("--local-ranks-filter=a train.py", "'a' is no list of ranks", "0,1,2"),
    "no interval": ("--monitor-interval=inf train.py", "spec.monitor_interval", "must end"),
    "no host": ("--set spec.master_addr= train.py", "spec.master_addr", "must name a host"),
    "no signal": ("--signals-to-handle=SIGTREM train.py", "SIGTREM", "'TERM'"),
    "no sink": ("--event-log-handler=x train.py", "spec.event_log_handler", "console"),
    "no specs": ("--logs-specs=x train.py", "logs specs called 'x'", "default"),
    "binding": ("--numa-binding=node train.py", "--numa-binding", "numactl"),
    "two ways": ("-m --no-python train", "--no-python and --module", "leave one"),
    "no such script": ("trian.py", "no such file: 'trian.py'", "'train.py'"),
    "no such program": ("--no-python ./trian", "no such file: './trian'", "'train.py'"),
    "an id with a slash": ("--rdzv-id=a/b train.py", "run_id", "slash"),
    "a file for a folder": ("--log-dir=train.py train.py", "logs.log_dir", "log_dir=PATH"),
    "a wrong override": ("--set spec.rolle=x train.py", "spec.rolle", "spec.role"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_screen(capsys, name):
    text, what, fix = BAD[name]
    assert run_command_line(["torchrun", *shlex.split(text)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert what in err
    assert fix in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 12


def test_a_switch_that_is_none(monkeypatch, capsys):
    monkeypatch.setenv("PET_STANDALONE", "yes")
    assert run_command_line(["torchrun", "train.py"]) == 2
    assert "PET_STANDALONE: 'yes' is no switch" in capsys.readouterr().err


def test_all_that_is_wrong_is_said_at_once(capsys):
    argv = ["torchrun", "--nnodes=x", "--nproc-per-node=y", "--local-ranks-filter=z", "train.py"]
    assert run_command_line(argv) == 2
    assert "3 problems" in capsys.readouterr().err


# -- the mirrors -------------------------------------------------------------------------------


def test_a_launcher_may_add_options_of_its_own(tmp_path):
    parser = mirror.get_args_parser()
    assert isinstance(parser, ArgumentParser)
    parser.add_argument("--network-check", action="store_true")
    text = (
        "--network-check --nnodes=1:2 --nproc_per_node=2 --rdzv-backend=c10d "
        "--rdzv-endpoint=h:1 --rdzv-conf=join_timeout=9 --log-dir=logs -r 3 train.py a"
    )
    args = parser.parse_args(shlex.split(text))
    config, program, rest = mirror.config_from_args(args)
    assert args.network_check
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (1, 2, 2)
    assert config.rdzv_configs == {"join_timeout": 9, "timeout": 900}
    assert config.run_id == "none"
    assert config.logs_specs.root_log_dir == "logs"
    assert (program, rest) == (sys.executable, ["-u", "train.py", "a"])


def test_config_from_args_with_run_path_is_a_function():
    args = mirror.parse_args(["--run-path", "/a/b.py", "x"])
    _, function, rest = mirror.config_from_args(args)
    assert function is mirror.run_script_path
    assert rest == ["/a/b.py", "x"]


def test_config_from_args_refuses():
    with pytest.raises(ValueError, match="numactl"):
        mirror.config_from_args(mirror.parse_args(["--numa-binding=node", "t.py"]))
    with pytest.raises(ValueError, match="leave one"):
        mirror.config_from_args(mirror.parse_args(["-m", "--no-python", "t.py"]))
    with pytest.raises(BadInput, match="'nobody'"):
        mirror.config_from_args(mirror.parse_args(["--logs-specs", "nobody", "t.py"]))
    with pytest.raises(ValueError, match="--use-env"):
        legacy.launch(legacy.parse_args(["--no-python", "t.py"]))


@pytest.mark.parametrize("text", ["--nnodes=2:1", "--nnodes=0:1", "--standalone --nnodes=2:1"])
def test_run_refuses_a_number_of_nodes_that_cannot_be(text):
    with pytest.raises(ValueError, match="is no number of nodes"):
        mirror.run(mirror.parse_args([*text.split(), "--no-python", "/bin/true"]))


def test_only_what_is_needed_is_loaded():
    code = (
        "import sys; from elastic_fsm.cli import run_command_line as run;"
        "run(['torchrun', '--print-config', '--nproc-per-node=auto', 'train.py']);"
        "print(sorted({'torch'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"


def ways_to_say(parser):
    """By option as it is called in the program: its spellings, default and choices."""
    return {
        action.dest: (sorted(action.option_strings), action.default, action.nargs, action.choices)
        for action in parser._actions
        if action.dest not in ("help", "numa_binding")
    }


@pytest.mark.torch
def test_the_options_are_torchs():
    run = pytest.importorskip("torch.distributed.run")
    assert ways_to_say(mirror.get_args_parser()) == ways_to_say(run.get_args_parser())


def test_every_option_is_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "from_torchrun.md").read_text()
    parser = mirror.get_args_parser()
    add_launch_options(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    named = {option for option in options if f"`{option}" in text}
    assert {option for option in options if "_" not in option} - named == {"-h", "--help"}


def test_options_of_the_rendezvous():
    assert nodes.options_of("") == {}
    assert nodes.options_of(" a=1 , b = c=d ") == {"a": 1, "b": "c=d"}

"""Configurations that come from Python: mappings, dataclasses, Hydra applications, hydra-zen."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from elastic_fsm.config import RunConfig, compose, resolve
from elastic_fsm.config.schema import LogsConfig, SpecConfig
from elastic_fsm.launch import run
from elastic_fsm.problems import BadInput


def bad(config):
    with pytest.raises(BadInput) as caught:
        resolve(config)
    return list(caught.value.problems)


def test_nothing_given_is_the_default():
    for config in (
        {},
        RunConfig(),
        RunConfig,
        OmegaConf.create({}),
        OmegaConf.structured(RunConfig),
    ):
        assert resolve(config).values == compose([]).values


def test_a_dataclass():
    spec = SpecConfig(local_world_size=2, args=["${x}", "???", 1, True, None], env={"A": "1e3"})
    values = resolve(RunConfig(spec=spec, logs=LogsConfig(mode="files"))).values
    assert values["spec"]["local_world_size"] == 2
    assert values["spec"]["args"] == ["${x}", "???", "1", "true", "null"]
    assert values["spec"]["env"] == {"A": "1e3"}
    assert values["logs"]["mode"] == "files"


def test_a_mapping_may_name_groups():
    values = resolve({"machine": "fail_fast", "logs": "files", "spec": {"env": {"A": 1}}}).values
    assert values["machine"] == compose(["machine=fail_fast"]).values["machine"]
    assert values["logs"]["mode"] == "files"
    assert values["spec"]["env"] == {"A": "1"}


def test_a_whole_machine_replaces_ours_and_a_part_is_merged():
    whole = {"initial": "A", "states": {"A": {"final": True}}, "transitions": {}}
    assert resolve({"machine": whole}).values["machine"] == whole
    part = resolve({"machine": {"transitions": {"x": {"trigger": "t"}}}}).values["machine"]
    assert part["transitions"].pop("x") == {"trigger": "t"}
    assert part == compose([]).values["machine"]


def test_a_node_of_an_application_sees_the_applications_values():
    app = OmegaConf.create({"lr": 0.1, "size": 3, "words": ["a", "b"]})
    app.agent = {"spec": {"local_world_size": "${size}", "args": "${words}", "env": {"A": "${lr}"}}}
    spec = resolve(app.agent).values["spec"]
    assert spec["local_world_size"] == 3
    assert spec["args"] == ["a", "b"]
    assert spec["env"] == {"A": "${lr}"}  # a worker's text is never interpolated


def test_mistakes():
    problems = bad({"spec": {"max_restart": 1, "module": "x"}, "nope": 1, "run_dir": "${x.y}"})
    assert [p.path for p in problems] == ["run_dir"]
    problems = bad({"spec": {"max_restart": 1, "module": "x", "stdin": 4}, "nope": 1})
    assert {p.path for p in problems} == {"spec.max_restart", "spec.module", "spec.stdin", "nope"}
    assert {p.where for p in problems} == {"the calling program"}
    (problem,) = bad({"machine": "elastik"})
    assert problem.where == "the calling program"
    for nonsense in (3, "text", [1], None, {"spec": object()}):
        assert "configuration" in bad(nonsense)[0].what


def test_a_program_without_a_command_is_told_where_it_goes():
    with pytest.raises(BadInput) as caught:
        run({})
    (problem,) = caught.value.problems
    assert problem.where == "the calling program"
    assert "spec.entrypoint" in problem.fix


def test_the_argument_is_not_changed():
    given = {"machine": {"initial": "A", "states": {"A": {}}}, "logs": "files"}
    before = json.dumps(given)
    resolve(given).values["machine"]["states"].clear()
    assert json.dumps(given) == before


def test_hydra_zen():
    zen = pytest.importorskip("hydra_zen")
    size = {"local_world_size": 2, "env": {"A": "b"}}
    spec = zen.builds(SpecConfig, **size)
    configs = [
        zen.builds(RunConfig, spec=spec),
        zen.builds(RunConfig, spec=spec, populate_full_signature=True),
        zen.builds(RunConfig, spec=spec, populate_full_signature=True)(),
        zen.make_config(agent=RunConfig(spec=SpecConfig(**size)))().agent,
        zen.instantiate(zen.builds(RunConfig, spec=spec)),
        OmegaConf.structured(zen.make_config(agent=zen.builds(RunConfig, spec=spec))).agent,
        OmegaConf.create({"agent": zen.just(RunConfig(spec=SpecConfig(**size)))}).agent,
        zen.make_custom_builds_fn(populate_full_signature=True)(RunConfig)(spec=spec),
    ]
    expected = compose(["spec.local_world_size=2", "spec.env.A=b"]).values
    for index, config in enumerate(configs):
        assert resolve(config).values == expected, index


APP = """\
import json, os, sys
import hydra
from hydra.core.hydra_config import HydraConfig
from elastic_fsm.config import resolve

@hydra.main(config_path="conf", config_name="config", version_base="1.3")
def main(cfg):
    before = os.getcwd()
    values = resolve(cfg.agent).values
    again = HydraConfig.get().job.name  # the application's Hydra is still its own
    print(json.dumps({"job": again, "moved": os.getcwd() != before, "logs": cfg.logs, "values":
        {k: v for k, v in values.items() if k != "machine"},
        "transitions": sorted(values["machine"]["transitions"])},
        default=lambda node: dict(node)))

main()
"""

CONFIG = """\
defaults:
  - machine: big
  - logs: loud
  - elastic_fsm@agent: run
  - _self_
size: 2
agent:
  spec:
    local_world_size: ${size}
    args: [a, "${size}"]
    env: {LR: 0.1, FLAG: true, RAW: "???"}
"""


@pytest.fixture
def app(folder, tmp_path):
    """An application of somebody's with config, machine and logs of its own."""
    folder("app.py", APP)
    folder("conf/config.yaml", CONFIG)
    folder("conf/machine/big.yaml", "cores: 64\n")
    folder("conf/machine/elastic.yaml", "cores: 1\n")
    folder("conf/logs/loud.yaml", "level: debug\n")
    folder("conf/logs/tee.yaml", "level: wrong\n")

    def run(*words: str):
        command = [sys.executable, "app.py", "hydra.output_subdir=null", "hydra.run.dir=.", *words]
        command += ["hydra/job_logging=none", "hydra/hydra_logging=none"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_in_a_hydra_application(app, tmp_path):
    words = ["agent.spec.max_restarts=3", "agent.spec.env.NEW=x", "agent.stop.grace=1m"]
    words += ["elastic_fsm/logs@agent.logs=files", "elastic_fsm/machine@agent.machine=fail_fast"]
    words += ["agent.machine.transitions.mine.trigger=t"]
    done = app(*words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["job"], answer["moved"]) == ("app", False)
    assert answer["logs"] == {"level": "debug"}
    fail_fast = compose(["machine=fail_fast"]).values["machine"]["transitions"]
    assert answer["transitions"] == sorted([*fail_fast, "mine"])
    values, spec = answer["values"], answer["values"]["spec"]
    assert (spec["local_world_size"], spec["max_restarts"]) == (2, 3)
    assert spec["args"] == ["a", "${size}"]
    assert spec["env"] == {"LR": "0.1", "FLAG": "true", "RAW": "???", "NEW": "x"}
    assert (values["logs"]["mode"], values["stop"]["grace"]) == ("files", 60.0)
    # Hydra itself refuses what the dataclasses do not know, and names the key.
    for word, name in {
        "agent.spec.max_restart=3": "max_restart",
        "agent.spec.stdin=x": "stdin",
    }.items():
        refused = app(word)
        assert refused.returncode == 1
        assert name in refused.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app.py", "conf"]


ZEN = """\
import json
from hydra_zen import builds, make_config, store, zen
from elastic_fsm.config import resolve

store({"cores": 64}, group="machine", name="big")
store({"level": "debug"}, group="logs", name="loud")
defaults = ["_self_", {"machine": "big"}, {"logs": "loud"}, {"elastic_fsm@agent": "run"}]
config = make_config("machine", "logs", "agent", hydra_defaults=defaults, size=2)
store(config, name="config")

def main(agent, machine, logs, size):
    values = resolve(agent).values
    print(json.dumps([machine["cores"], logs["level"], size, values["spec"],
        values["logs"]["mode"], values["machine"]["initial"]]))

store.add_to_hydra_store()
zen(main).hydra_main(config_name="config", version_base="1.3", config_path=None)
"""


@pytest.mark.slow
def test_in_a_hydra_zen_application(app, folder):
    pytest.importorskip("hydra_zen")
    folder("app.py", ZEN)
    done = app("agent.spec.local_world_size=${size}", "elastic_fsm/logs@agent.logs=files")
    assert done.returncode == 0, done.stderr
    cores, level, size, spec, mode, initial = json.loads(done.stdout)
    assert (cores, level, size) == (64, "debug", 2)
    assert spec == compose(["spec.local_world_size=2"]).values["spec"]
    assert (mode, initial) == ("files", "INIT")


@pytest.mark.slow
def test_an_application_that_does_not_use_us_pays_little(folder, tmp_path):
    folder("conf/config.yaml", "x: 1\n")
    code = (
        "import sys, hydra, json\n"
        f"with hydra.initialize_config_dir({str(tmp_path / 'conf')!r}, version_base='1.3'):\n"
        "    cfg = hydra.compose('config')\n"
        "print(json.dumps(sorted(m for m in sys.modules if m.startswith('elastic_fsm'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= {
        "elastic_fsm",
        "elastic_fsm.config",
        "elastic_fsm.config.paths",
        "elastic_fsm.config.search_path",
    }

"""Composing from overrides: defaults, types, durations, and what must not be touched."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from elastic_fsm.config import Composed, RunConfig, compose
from elastic_fsm.config.schema import duration_fields, field_types


def test_the_files_repeat_the_defaults_of_the_dataclasses():
    values = compose([]).values
    typed = compose([]).config
    assert isinstance(typed, RunConfig)
    expected = asdict(RunConfig(machine=typed.machine))
    for path in duration_fields():
        group, name = path.split(".")
        assert isinstance(values[group][name], float)
        values[group][name] = expected[group][name] = None
    assert values == expected


def test_the_files_show_every_key():
    composed = compose([])
    for path, kind in field_types().items():
        if kind:
            assert "conf/elastic_fsm/" in composed.origin(path), path


def test_the_default_machine_is_elastic():
    machine = compose([]).values["machine"]
    assert machine["initial"] in machine["states"]
    assert machine["states"]["FAILED"]["final"] is True
    assert compose(["machine=fail_fast"]).values["machine"] != machine


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("7", 7.0),
        ("0.25", 0.25),
        ("null", None),
    ],
)
def test_durations(typed, seconds):
    assert compose([f"stop.grace={typed}"]).values["stop"]["grace"] == seconds


def test_signals_get_their_full_names():
    stop = compose(["stop.signals=[TERM,sigint,1,TERM]", "stop.signal=usr1"]).values["stop"]
    assert stop["signals"] == ["SIGTERM", "SIGINT", "SIGHUP"]
    assert stop["signal"] == "SIGUSR1"


@pytest.mark.parametrize("option", ["files", "console", "terminal", "tee"])
def test_logs_choose_a_mode(option):
    logs = compose([f"logs={option}"]).values["logs"]
    assert logs["mode"] == option
    assert logs["tail_lines"] == 20


def test_backoff_grows():
    restart = compose(["restart=backoff"]).values["restart"]
    assert (restart["delay"], restart["factor"]) == (1.0, 2.0)


def test_auto_is_left_for_the_agent():
    assert compose(["spec.local_world_size=auto"]).values["spec"]["local_world_size"] == "auto"


@pytest.mark.parametrize("text", ["20240101_120000", "0115", "1e3", "true", "7"])
def test_text_keys_keep_what_was_typed(text):
    assert compose([f"run_id={text}"]).values["run_id"] == text


def test_machine_is_open_with_or_without_a_plus():
    words = [
        "machine.transitions.a.conditions=[x]",
        "+machine.transitions.b={trigger: t}",
        "++machine.transitions.begin.doc=other",
        "~machine.transitions.reform",
        "machine.states.INIT.ignores.0=first",
    ]
    machine = compose(words).values["machine"]
    plain = compose([]).values["machine"]
    assert machine["transitions"]["a"] == {"conditions": ["x"]}
    assert list(machine["transitions"])[-2:] == ["a", "b"]
    assert machine["transitions"]["begin"] == plain["transitions"]["begin"] | {"doc": "other"}
    assert "reform" in plain["transitions"]
    assert "reform" not in machine["transitions"]
    assert machine["states"]["INIT"]["ignores"][0] == "first"


def test_references_are_worked_out(monkeypatch):
    monkeypatch.setenv("HERE", "/data")
    words = ["run_dir=${oc.env:HERE}/${spec.role}", "machine.doc=at ${run_dir}"]
    values = compose([words[0], f'machine.doc="{words[1].partition("=")[2]}"']).values
    assert values["run_dir"] == "/data/default"
    assert values["machine"]["doc"] == "at /data/default"


def test_typed_view():
    config = compose(["spec.max_restarts=2", "spec.worker_env.0.A=b"]).config
    assert config.spec.max_restarts == 2
    assert config.spec.worker_env == {0: {"A": "b"}}
    assert config.stop.grace == 25.0


def test_every_key_of_the_schema_can_be_overridden():
    kinds = {"bool": "true", "int": "0", "float": "2", "list": "[]", "dict": "{}"}
    special = {"spec.local_world_size": "2", "exit_code": "torchrun", "logs.mode": "files"}
    special |= {"stop.signal": "USR1", "machine": "{}"}
    for key, kind in field_types().items():
        if not kind:
            continue
        value = special.get(key) or kinds.get(kind.partition("[")[0].split()[0], "1")
        assert isinstance(compose([f"{key}={value}"]), Composed), key


def test_nothing_outside_is_touched(folder, tmp_path):
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    compose(["spec.max_restarts=1"])
    assert os.getcwd() == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert (list(root.handlers), root.level) == (handlers, level)


def test_no_global_state_of_hydra_is_left_or_disturbed(tmp_path):
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.version import VersionBase

    compose([])
    assert not GlobalHydra.instance().is_initialized()
    with initialize_config_dir(str(tmp_path), version_base="1.2"):
        mine = GlobalHydra.instance().hydra
        base = VersionBase.instance().getbase()
        compose(["machine=fail_fast"])
        assert GlobalHydra.instance().hydra is mine
        assert VersionBase.instance().getbase() is base


def test_two_runs_share_nothing():
    first = compose([]).values
    first["machine"]["states"].clear()
    first["stop"]["signals"].clear()
    second = compose([]).values
    assert second["machine"]["states"]
    assert second["stop"]["signals"]


def test_the_dataclasses_are_cheap_to_import():
    code = (
        "import sys, json; import elastic_fsm.config, elastic_fsm.config.schema;"
        "from elastic_fsm.config import RunConfig, torchrun_hint;"
        "print(json.dumps([m for m in ('hydra', 'omegaconf', 'yaml', 'torch', 'transitions')"
        " if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []

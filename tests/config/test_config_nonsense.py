"""Whatever is typed, the answer is a run or findings: never somebody else's exception."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic_fsm.config import compose
from elastic_fsm.config.schema import field_types
from elastic_fsm.problems import BadInput

KEYS = [*field_types(), "machine.x", "machine.states.INIT.ignores.0", "spec.env.X", "spec.args.0"]
KEYS += ["spec.worker_env.0.X", "hydra", "nope", "a@b", "stop.signals.0", "spec.role.x", ""]
VALUES = ["", "1", "null", "true", "[1,2]", "{a: 1}", "a,b", "a=b", "[", "{", "'x", "${x}", "${"]
VALUES += ["???", "-1", "nan", "${machine}", "${spec}", "choice(1,2)", "${..}", "\\", "[null]"]
VALUES += ["=", "!!x", "[[a]]", "[{a: 1}]", "\udcff", "[\udcff]", f"1{400 * '0'}"]
NODES = ["3", "x", "[1, 2]", "{a: 1}", "{}", "[]", "${x}", "???", "{env: null}", "{args: [[1]]}"]
NODES += ["{worker_env: {0: null}}", "[{machine: [elastic]}]", "[_self_, _self_]", "['x@y']", "="]
NODES += ["[{'': x}]", "[schema]", "[run, run]", "&a [*a]", "!!set {a}", "[null]", "*x"]
NODES += ["{max_restarts: 1.5}", "[{machine: 3}]", "[{machine: }]", "[[a]]", "'${nope}'"]
NODES += ["{worker_env: {'0': {a: b}}}", "{worker_env: '${spec.env}', env: {a: b}}"]
NODES += [f"{{factor: 1{400 * '0'}, monitor_interval: 1{400 * '0'}}}"]

quick = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def shown(words, job=None):
    with contextlib.suppress(BadInput):
        composed = compose(words, job_file=job)
        assert composed.to_yaml(origin=True)
        assert composed.config


@pytest.mark.slow
@quick
@given(st.sampled_from(["", "+", "++", "~"]), st.sampled_from(KEYS), st.sampled_from(VALUES))
def test_words(sign, key, value):
    shown([f"{sign}{key}={value}"])


@pytest.mark.slow
@quick
@given(st.text(max_size=30))
def test_any_word(text):
    shown([text])


@pytest.mark.slow
@quick
@given(
    st.dictionaries(
        st.sampled_from([*(k for k in field_types() if "." not in k), "defaults", "hydra", "<<"]),
        st.sampled_from(NODES),
        max_size=2,
    )
)
def test_files(folder, keys):
    shown([], folder("job.yaml", "".join(f"{key}: {node}\n" for key, node in keys.items())))


@pytest.mark.slow
@quick
@given(st.binary(max_size=40))
def test_any_file(folder, data):
    folder("job.yaml", "")
    Path("job.yaml").write_bytes(data)
    shown([], Path("job.yaml"))

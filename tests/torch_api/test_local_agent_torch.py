"""LocalElasticAgent over torch's own handlers: groups of real torch workers, on two nodes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elastic_fsm.rendezvous.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.torch]

NODE = Path(__file__).with_name("agent_node.py")
RESTARTS = 3


@pytest.mark.parametrize("backend", ["c10d", "file", "static"])
def test_two_agents_form_a_group_and_form_it_anew_after_each_failure(backend, tmp_path):
    """Only the failed node spends its budget; the other one is told, and forms the group anew."""
    endpoint = str(tmp_path / "store") if backend == "file" else f"127.0.0.1:{free_port('')}"
    nodes = [
        subprocess.Popen(
            [sys.executable, NODE, backend, endpoint, "2", rank, str(RESTARTS), tmp_path / rank],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    lines = [node.communicate(timeout=100)[0].splitlines() for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert sorted(each[-1] for each in lines) == [
        f"SUCCEEDED [(0, ({RESTARTS}, 3.0))]",
        "SUCCEEDED [(1, (0, 3.0))]",
    ]
    sums = [line for each in lines for line in each[:-1]]
    assert sums == ["sum 3.0 of 2"] * (2 * (RESTARTS + 1))

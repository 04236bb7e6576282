"""The limit on open files: what is enough is enough, and less is told before anything starts."""

from __future__ import annotations

import pytest

from elastic_fsm.descriptors import check_descriptors

pytestmark = pytest.mark.slow

FAILS_ONCE = "exit $((1 - TORCHELASTIC_RESTART_COUNT))"


def values_of(mode, ranks=None, rendezvous="standalone"):
    logs = {"mode": mode, "console_ranks": ranks}
    return {"logs": logs, "rendezvous": {"name": rendezvous}}


@pytest.mark.parametrize(("mode", "ranks"), [("tee", None), ("console", [0]), ("files", None)])
def test_what_is_needed_is_enough_and_less_is_refused(scene, monkeypatch, mode, ranks):
    monkeypatch.setattr("resource.getrlimit", lambda _: (0, 0))
    (problem,) = check_descriptors(values_of(mode, ranks), 8)
    needed = int(problem.what.split()[3])
    shown = "null" if ranks is None else str(ranks)
    words = ["-n", "8", f"logs={mode}", f"logs.console_ranks={shown}", "spec.max_restarts=1"]

    def run(limit):
        line = f'ulimit -n {limit} && exec "$0" -m elastic_fsm run "$@"'
        argv = ["sh", "-c", line, scene.python]
        return scene.run(*words, "--", "sh", "-c", FAILS_ONCE, argv=argv)

    enough = run(needed)
    assert enough.code == 0, enough.err
    refused = run(needed - 1)
    assert refused.code == 2
    what = f"8 workers need {needed} open files; the limit is {needed - 1}"
    assert what in refused.err
    assert f"ulimit -n {2 * needed}, before it" in refused.err


def test_no_limit_is_enough(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))
    assert not list(check_descriptors(values_of("tee"), 10**6))


def test_a_store_needs_some(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (60, 60))
    assert not list(check_descriptors(values_of("tee"), 8))
    assert list(check_descriptors(values_of("tee", rendezvous="c10d"), 8))

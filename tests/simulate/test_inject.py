"""``elastic-fsm run --inject``: the same files against real processes."""

from __future__ import annotations

import re

import pytest

from elastic_fsm.config import compose
from elastic_fsm.loop import Loop
from elastic_fsm.preparing import prepare
from elastic_fsm.scenario.injecting import Injection, injection_problems
from elastic_fsm.scenario.script import parse_script
from elastic_fsm.testing import ManualClock, NothingCanHappen, ScriptedLauncher


class Stage:
    """An injection with a launcher that only notes what it is asked, in virtual time."""

    def __init__(self, text: str, workers: int = 2) -> None:
        self.loop = Loop(ManualClock())
        self.launcher = ScriptedLauncher(self.loop)
        self.said: list[str] = []
        self.injection = Injection(
            self.loop, self.launcher, parse_script(text), workers=workers, say=self.said.append
        )

    def play(self, until: float = 1e9) -> list[str]:
        """The events that it posted; time ends when nothing else can happen."""
        self.injection.start()
        events = []
        self.loop.call_later(until, self.injection.close)
        try:
            while True:
                event = self.loop.next_event()
                events.append(f"{self.loop.clock.now():g} {event.name} {dict(event.data)}")
        except NothingCanHappen:
            return events
        finally:
            self.loop.close()

    @property
    def sent(self) -> list[tuple[str, int]]:
        return [call[1:] for call in self.launcher.calls if call[0] == "signal"]


def test_workers_are_killed_as_they_would_have_died():
    stage = Stage(
        "at 1s worker 1 exits 137\nat 2s worker 0 dies of SIGSEGV\nat 3s worker 0 exits 143\n"
    )
    assert stage.play() == []
    assert stage.sent == [("SIGKILL", 1), ("SIGSEGV", 0), ("SIGTERM", 0)]
    assert stage.said[0] == "injected after 1s: SIGKILL to worker 1, which does not run"


def test_signals_and_changes_are_events():
    stage = Stage("at 1s signal SIGUSR1\nat 2s membership changes: gone\nat 3s event x a=1\n")
    assert stage.play() == [
        "1 signal_received {'signal': 'SIGUSR1'}",
        "2 membership_changed {'reason': 'gone'}",
        "3 x {'a': 1}",
    ]
    assert [line.partition(": ")[2] for line in stage.said] == [
        "SIGUSR1 to the agent", "membership changes", "x",
    ]  # fmt: skip


def test_what_goes_first_of_one_moment_is_what_goes_first_in_a_simulation():
    stage = Stage(
        "at 1s membership changes\nat 1s signal SIGHUP\nat 1s event x\n"
        "at 1s event signal_received signal=SIGTERM\nat 1s event action_failed\n"
    )
    assert [event.split()[1] for event in stage.play()] == [
        "signal_received", "signal_received", "action_failed", "membership_changed", "x",
    ]  # fmt: skip
    assert stage.said[0].endswith("membership changes")


@pytest.mark.parametrize("end", ["end at 10h\n", "workers finish after 10h\n"])
def test_failures_at_random_until_the_end(end):
    text = f"failures every 1h seed 7\nmembership changes every 1h seed 3\n{end}"
    stage = Stage(text, workers=3)
    changes = stage.play(until=20 * 3600)
    count = 20 if end.startswith("workers") else 10
    assert count / 2 < len(changes) < count * 2
    assert count / 2 < len(stage.sent) < count * 2
    assert {name for name, _ in stage.sent} == {"SIGKILL"}
    assert len({rank for _, rank in stage.sent}) > 1


def test_what_cannot_be_done_to_real_processes_is_refused():
    text = (
        "workers finish after 2h\nworkers finish 1s after SIGUSR1\nend at 3h\n"  # described only
        "at 1s worker 0 exits 137\n"
        "at 2s worker 0 exits 1\nat 3s worker 9 exits 137\nworker 0 ignores signals\n"
        "rendezvous waits\nfailures every 1h seed 7 exits 3\n"
    )
    run = prepare(compose(["spec.local_world_size=4"]), ["true"])
    problems = list(injection_problems(parse_script(text, name="x"), run))
    assert [problem.where for problem in problems] == ["x:6", "x:5", "x:7", "x:8", "x:9"]
    assert problems[0].what == "there is no worker 9: they are 0 to 3"
    assert problems[1].fix == "write `dies of SIGKILL`"


@pytest.mark.slow
def test_real_workers_are_killed_and_the_run_resumes(scene):
    """Somebody is killed sooner or later; whoever is started again has nothing left to do."""
    scene.write(
        "crash.txt", "workers 2\nmax_restarts 1000\nfailures every 100ms seed 7\nend at 1h\n"
    )
    scene.write(
        "worker.py",
        "import os, signal\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    signal.pause()\n",
    )
    run = scene.run("--inject", "crash.txt", "logs=files", "worker.py")
    assert run.code == 0, run.err
    assert re.search(r"injected after \w+: SIGKILL to worker [01]\n", run.err)
    assert "was ended by SIGKILL (-9)" in run.err
    assert run.path[-4:] == ["STARTING", "HEALTHY", "SETTLING", "SUCCEEDED"]
    assert "UNHEALTHY" in run.path


@pytest.mark.slow
def test_a_bad_scenario_starts_nothing(scene):
    scene.write("crash.txt", "workers 2\nat 1s worker 1 exits 1\n")
    run = scene.run("--inject", "crash.txt", "touch", "started")
    assert run.code == 2
    assert "crash.txt:2: no program can be made to exit with 1 from outside" in run.err
    assert not (scene.folder / "started").exists()

"""What a launcher that starts commands on this machine must keep beyond the contract of all."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.base import LaunchPlan
from elastic_fsm.testing.contracts.launcher import LauncherContract

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ProcessLauncherContract"]


class ProcessLauncherContract(LauncherContract):
    """Commands are started as they stand, each in a session of its own."""

    def setup_method(self) -> None:
        """Before each check."""
        super().setup_method()
        self._started_by_workers: list[int] = []

    def teardown_method(self) -> None:
        """After each check; a launcher that fails one must not leave its processes here."""
        try:
            super().teardown_method()
        finally:
            for pid in self._started_by_workers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def output_of(self, *argv: str, **fields: Any) -> str:
        """What a command writes, when it is started as a worker and ends with 0."""
        out = self.folder / "stdout"
        self.launcher.start(LaunchPlan(0, (self.worker(0, argv, stdout=out, **fields),)))
        self.take("workers_started")
        ended = self.take("worker_exited").data
        assert ended["exit_code"] == 0, ended
        return out.read_text()

    def test_words_are_passed_on_as_they_are(self) -> None:
        told = self.output_of("printf", "%s|", "a  b", "", "$HOME", "*", "é")
        assert told == "a  b||$HOME|*|é|"

    def test_the_environment_is_that_of_the_plan_over_the_agents(self) -> None:
        """Beside a launcher's own variables, which are named so."""
        wanted = {"PLAN": "a\nb=c", "PATH": f"{os.environ['PATH']}:/plan", "EMPTY": ""}
        words = self.output_of("env", "-0", env=wanted).split("\0")[:-1]
        got = dict(word.split("=", 1) for word in words)
        own = {name for name in got if name.startswith("ELASTIC_FSM_")} - set(os.environ)
        expected = {**os.environ, "BELL": str(self.folder / "bell"), **wanted}
        assert {k: v for k, v in got.items() if k not in own} == expected

    def test_the_folder_is_that_of_the_plan(self) -> None:
        inner = self.folder / "inner"
        inner.mkdir()
        assert self.output_of("pwd", "-P", cwd=str(inner)).strip() == str(inner.resolve())

    def test_a_worker_reads_nothing(self) -> None:
        assert self.output_of("cat") == ""

    def test_output_is_added_to_the_files_of_the_plan(self) -> None:
        (self.folder / "stdout").write_text("before\n")
        err = self.folder / "stderr"
        assert self.output_of("sh", "-c", "echo out; echo err >&2", stderr=err) == "before\nout\n"
        assert err.read_text() == "err\n"

    def test_each_worker_has_a_session_of_its_own(self) -> None:
        pids = self.start("waits", "waits")
        assert [os.getsid(pid) for pid in pids] == pids

    def test_a_stop_reaches_what_the_workers_started(self) -> None:
        child = self._child_of_a_worker("waits for its child", "")
        self.launcher.stop(0, "SIGTERM", self.patience)
        self.stopped(1)
        assert not self.is_alive(child)

    def test_a_stop_reaches_what_a_worker_left_behind(self) -> None:
        child = self._child_of_a_worker("ends", "exit 0")
        self.exits(1)
        self.launcher.stop(0, "SIGTERM", self.patience)
        self.stopped(0)
        assert not self.is_alive(child)

    def _child_of_a_worker(self, what: str, then: str) -> int:
        pid_file: Path = self.folder / "pid"
        script = f'sleep 600 & echo $! >"{pid_file}"; echo "{what}" >"$BELL"; {then or "wait"}'
        self.start(script)
        self.await_workers(1)
        self._started_by_workers.append(int(pid_file.read_text()))
        return self._started_by_workers[-1]

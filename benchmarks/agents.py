"""Starting an agent with 8 workers, and the time stamps that the workers send.

Every wait is bounded and every process is ended by its pid.
"""

from __future__ import annotations

import argparse
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
WORKERS = 8
Options = argparse.Namespace


class Failed(Exception):
    """A measurement that could not be taken, with what the agent said."""


# The two sides


@dataclass(frozen=True)
class Side:
    """One of the two agents, or the bare loop beside them: how to start it with 8 workers."""

    name: str
    program: str

    def command(
        self, worker: Sequence[str], folder: Path, *, max_restarts: int = 0, tee: bool = False
    ) -> list[str]:
        if self.name == "torchrun":
            # Plain torchrun writes no files; ours always does, with its defaults.
            words = [f"--nproc-per-node={WORKERS}", f"--max-restarts={max_restarts}"]
            words += ["-t", "3", "--log-dir", str(folder / "logs")] if tee else []
            return [*self.program.split(), *words, "--no-python", *worker]
        if self.name == "bare loop":
            return [*self.program.split(), str(max_restarts), *worker]
        words = ["run", "-n", str(WORKERS), f"run_dir={folder / 'runs'}", "logs=tee"]
        return [*self.program.split(), *words, f"spec.max_restarts={max_restarts}", "--", *worker]


# Running an agent


@dataclass(frozen=True)
class Stamp:
    """What a worker reported: ``value`` is a time, or for ``used`` its CPU time, in ns."""

    what: str
    start: int
    rank: int
    pid: int
    value: int


@dataclass
class Run:
    """An agent with its workers, from its start to the end of the last process.

    ``stdout`` is where the agent writes; by default a pipe that nobody reads, which is enough
    for the few lines of an agent whose workers are silent.
    """

    side: Side
    options: Options
    mode: str
    max_restarts: int = 0
    tee: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    stdout: IO[bytes] | None = None
    stamps: list[Stamp] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="benchmark-"))
        self._errors = (self.folder / "stderr").open("wb")
        fifo = self.folder / "stamps"
        os.mkfifo(fifo)
        # Open for writing too: no end-of-file while no worker has it open.
        self._fifo = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._unread = b""
        worker = [str(build("worker")), self.mode]
        command = self.side.command(
            worker, self.folder, max_restarts=self.max_restarts, tee=self.tee
        )
        environment = {**os.environ, **self.environment, "BENCH_STAMPS": str(fifo)}
        # An installed package has its bytecode; so must a checkout, whatever this shell forbids.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.began = time.monotonic_ns()
        try:
            self.agent = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=self.stdout or subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError:
            self._close()
            raise
        return self

    def wait_for(self, what: str, count: int = WORKERS, *, start: int = 0) -> list[Stamp]:
        """The first ``count`` stamps of this kind from the workers' ``start``-th start."""
        deadline = time.monotonic() + self.options.timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._fifo, selectors.EVENT_READ)
            while True:
                found = [s for s in self.stamps if (s.what, s.start) == (what, start)]
                if len(found) >= count:
                    return found[:count]
                ended = self._has_ended()
                if selector.select(0 if ended else 0.5):
                    self._read()
                elif ended or time.monotonic() > deadline:
                    raise Failed(f"{len(found)} of {count} workers {what}\n{self.last_words()}")

    def wait_for_end(self) -> float:
        """Wait until the agent ends by itself; CPU seconds of it and all it has reaped."""
        descriptor = os.pidfd_open(self.agent.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(descriptor, selectors.EVENT_READ)
                if not selector.select(self.options.timeout):
                    raise Failed(f"the agent does not end\n{self.last_words()}")
        finally:
            os.close(descriptor)
        _, status, used = os.wait4(self.agent.pid, 0)
        self.agent.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_utime + used.ru_stime

    def helpers(self) -> list[psutil.Process]:
        """The agent's processes beside itself and the workers."""
        workers = {stamp.pid for stamp in self.stamps}
        children = psutil.Process(self.agent.pid).children(recursive=True)
        return [child for child in children if child.pid not in workers]

    def last_words(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")[-2000:]

    def __exit__(self, *_: object) -> None:
        if self.agent.returncode is None:
            self.agent.send_signal(signal.SIGTERM)
            try:
                self.agent.wait(40)
            except subprocess.TimeoutExpired:
                self.agent.kill()
                self.agent.wait()
        self._read()
        for pid in {stamp.pid for stamp in self.stamps}:
            end_worker(pid)
        if self.agent.stdout:
            self.agent.stdout.close()
        self._close()

    def _has_ended(self) -> bool:
        """Look without reaping: its CPU time is still to be read."""
        return bool(os.waitid(os.P_PID, self.agent.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))

    def _close(self) -> None:
        os.close(self._fifo)
        self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self) -> None:
        try:
            data = self._unread + os.read(self._fifo, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._unread = data.split(b"\n")
        for line in lines:
            what, *numbers = line.decode().split()
            self.stamps.append(Stamp(what, *map(int, numbers)))


def end_worker(pid: int) -> None:
    """Kill a worker that outlived its agent, if the pid is still one of ours."""
    try:
        process = psutil.Process(pid)
        if Path(process.exe()) == build("worker"):
            process.kill()
    except psutil.Error:
        pass  # gone, as it should be


_built: dict[str, Path] = {}


def build(program: str) -> Path:
    """Compile one of the C programs beside this file, once in a run of the harness."""
    if program not in _built:
        target = Path(_folder.name) / program
        compiler = os.environ.get("CC", "cc")
        source = HERE / f"{program}.c"
        subprocess.run([compiler, "-O2", "-o", str(target), str(source)], check=True)
        _built[program] = target.resolve()
    return _built[program]


_folder = tempfile.TemporaryDirectory(prefix="benchmark-programs-")

"""Real agents and real workers, awaited by what they do and never by the clock.

Workers ring a *bell* (a named pipe) to say that they have come somewhere, and wait at a *gate*
(another one) until the test opens it. Everything that an agent starts carries a mark in its
environment, so that survivors can be found in ``/proc``; zombies do not count. All waiting has
one generous limit, after which the awaited thing counts as never coming.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
import tty
from contextlib import suppress
from pathlib import Path

import pytest

WAIT = 60
MARK = "PROCESS_TEST_MARK"


class Reader:
    """Reads a descriptor in a thread until its end, and lets tests await what it has read."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # a pty's master ends with EIO where a pipe ends with nothing
            while data := os.read(self._fd, 65536):
                with self._news:
                    self._data += data
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()
        os.close(self._fd)

    @property
    def text(self) -> str:
        with self._news:
            return self._data.decode(errors="backslashreplace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match of a regular expression in what was read, from the beginning."""
        with self._news:
            limit = time.monotonic() + WAIT
            while True:
                found = re.search(pattern, self._data.decode(errors="backslashreplace"))
                if found:
                    return found
                left = limit - time.monotonic()
                if self._ended or not self._news.wait(max(0.0, left)) or left <= 0:
                    raise AssertionError(f"never came: {pattern!r}; read: {self._data.decode()}")

    def join(self) -> bytes:
        """Everything, once the other side has closed."""
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        return bytes(self._data)


class Run:
    """One ``elastic-fsm`` command line under way."""

    def __init__(self, folder: Path, argv: list[str], env: dict[str, str], **popen) -> None:
        self.folder = folder
        self.run_dir = "elastic_runs"
        for name in ("stdout", "stderr"):
            popen.setdefault(name, subprocess.PIPE)
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("cwd", folder)
        self.process = subprocess.Popen(argv, env=env, start_new_session=True, **popen)
        self.pid = self.process.pid
        self._out = self._reader(self.process.stdout)
        self._err = self._reader(self.process.stderr)

    @staticmethod
    def _reader(pipe) -> Reader | None:
        if pipe is None:
            return None
        fd = os.dup(pipe.fileno())
        pipe.close()
        return Reader(fd)

    @property
    def out(self) -> str:
        """Standard output, complete: waits for its end."""
        return self.out_bytes.decode(errors="backslashreplace")

    @property
    def out_bytes(self) -> bytes:
        return self._out.join()

    @property
    def err(self) -> str:
        """Standard error, complete: waits for its end."""
        return self._err.join().decode(errors="backslashreplace")

    def sees(self, pattern: str) -> re.Match[str]:
        """Wait for a line of standard error."""
        return self._err.wait_for(pattern)

    def shows(self, pattern: str) -> re.Match[str]:
        """Wait for a line of standard output."""
        return self._out.wait_for(pattern)

    def enters(self, state: str) -> None:
        """Wait until the machine has entered a state."""
        self.sees(rf"-> {state} \[")

    def signal(self, name: str) -> None:
        self.process.send_signal(signal.Signals[name])

    def wait(self) -> int:
        """The exit code."""
        with suppress(ProcessLookupError):  # reaped already
            Watch([self.pid]).ended()
        return self.process.wait()

    @property
    def node(self) -> Path:
        """The folder of the only run in the run directory; ``latest`` is not asked."""
        base = self.folder / self.run_dir
        (run,) = [path for path in base.iterdir() if not path.is_symlink()]
        (node,) = run.iterdir()
        return node

    @property
    def report(self) -> dict:
        return json.loads((self.node / "report.json").read_text())

    @property
    def journal(self) -> list[dict]:
        lines = (self.node / "journal.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    @property
    def path(self) -> list[str]:
        """The states that the machine went through, by the journal."""
        steps = [r for r in self.journal if r.get("outcome") == "step" and r["entered"]]
        return [steps[0]["source"], *(step["dest"] for step in steps)]

    def log(self, rank: int = 0, attempt: int = 0, stream: str = "stdout") -> str:
        return (self.node / f"attempt_{attempt}" / str(rank) / f"{stream}.log").read_text()


class Bell:
    """A named pipe that workers write lines to."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for both, so that it never ends and a worker that opens it never waits.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._lines: list[str] = []
        self._rest = b""

    def wait(self, count: int = 1) -> list[str]:
        """The next so many lines."""
        limit = time.monotonic() + WAIT
        while len(self._lines) < count:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"the bell was rung {len(self._lines)} times, not {count}"
            *whole, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
            self._lines += [line.decode() for line in whole]
        taken, self._lines = self._lines[:count], self._lines[count:]
        return taken

    def close(self) -> None:
        os.close(self._fd)


class Gate:
    """A named pipe that processes wait at: each takes one line out of it to pass."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def open(self, count: int = 1) -> None:
        """Let so many pass."""
        os.write(self._fd, b"\n" * count)

    def close(self) -> None:
        os.close(self._fd)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :][:1] not in (b"Z", b"X")


def marked(mark: str) -> dict[int, str]:
    """The living processes with a mark in their environment or their command line."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            folder = Path("/proc") / name
            words = (folder / "cmdline").read_bytes()
            has_mark = mark.encode() in (folder / "environ").read_bytes() + words
            if has_mark and int(name) != os.getpid() and is_alive(int(name)):
                found[int(name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


class Watch:
    """Waits for the ends of processes that are not children; made while they live."""

    def __init__(self, pids) -> None:
        self._fds = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                self._fds[os.pidfd_open(pid)] = pid

    def ended(self) -> None:
        """Wait until all have ended."""
        limit = time.monotonic() + WAIT
        while self._fds:
            ready, _, _ = select.select(self._fds, [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"still alive: {sorted(self._fds.values())}"
            for fd in ready:
                del self._fds[fd]
                os.close(fd)


class Scene:
    """A folder, a bell, a gate, and the agents that were started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"7{int.from_bytes(os.urandom(5), 'big')}"  # digits: `sleep` takes it too
        self.bell = Bell(folder / "bell")
        self.gate = Gate(folder / "gate")
        self.runs: list[Run] = []
        self.python = sys.executable
        self._open: list[int] = []
        self.env = {
            **os.environ,
            MARK: self.mark,
            "BELL": str(self.bell.path),
            "GATE": str(folder / "gate"),
            "SLEEP": f"600.{self.mark}",
        }
        for name in list(self.env):
            if name.startswith(("TORCHELASTIC_", "ELASTIC_FSM", "COV_", "OMP_", "CUDA_")):
                del self.env[name]
        for name in ("RANK", "PYTHON_EXEC", "PYTHONUNBUFFERED", "PYTHONPATH"):
            self.env.pop(name, None)

    def start(self, *words: str, env=None, argv=None, verb="run", **popen) -> Run:
        """Start ``elastic-fsm run`` with these words; a folder of its own is the current one."""
        argv = argv or [sys.executable, "-m", "elastic_fsm", verb]
        run = Run(self.folder, [*argv, *words], {**self.env, **(env or {})}, **popen)
        self.runs.append(run)
        return run

    def terminal(self, *words: str, **options) -> Run:
        """Start it on a terminal of its own; ``shows`` is what the terminal shows."""
        master, slave = os.openpty()
        tty.setraw(slave, termios.TCSANOW)
        ends = {"stdin": slave, "stdout": slave, "stderr": slave}
        run = self.start(*words, **ends, **options)
        os.close(slave)
        run._out = run._err = Reader(os.dup(master))
        run.keyboard = master
        self._open.append(master)
        return run

    def run(self, *words: str, **options) -> Run:
        """Start it and wait for its end."""
        run = self.start(*words, **options)
        run.code = run.wait()
        return run

    def in_dir(self, run: Run, run_dir: str) -> Run:
        """Look for the run's folder in another place."""
        run.run_dir = run_dir
        return run

    def pipe(self) -> tuple[int, int]:
        """Both ends of a pipe, closed at the end."""
        ends = os.pipe()
        self._open += ends
        return ends

    def close_fd(self, fd: int) -> None:
        self._open.remove(fd)
        os.close(fd)

    def watch(self) -> Watch:
        """To wait for the ends of all that are alive now."""
        return Watch(self.survivors())

    def kill(self, pids, name: str) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[name])

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def small_disk(self, name: str, size: str, script: str = '"$@"') -> list[str]:
        """The words before a command to which the folder is a disk of its own; ``script`` runs it.

        Skips where nothing can be mounted.
        """
        (self.folder / name).mkdir()
        line = f"mount -t tmpfs -o {size} none {name} && {{ {script}; }}"
        within = ["unshare", "-m", "sh", "-c", line, "sh"]
        if subprocess.run([*within, "true"], cwd=self.folder, capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
        return within

    def survivors(self) -> dict[int, str]:
        """The living processes of this scene, agents included: command lines by pid."""
        return marked(self.mark)

    def close(self) -> dict[int, str]:
        """Kill what is left; returns what there was beyond the agents that still ran."""
        running = [run for run in self.runs if run.process.poll() is None]
        left = {} if running else self.survivors()
        for run in running:
            print(f"still running: {run.process.args}; it said:\n{run._err and run._err.text}")
            run.process.kill()
            run.process.wait()
        while found := self.survivors():
            watch = Watch(found)
            self.kill(found, "SIGKILL")
            watch.ended()
        self.bell.close()
        self.gate.close()
        for fd in self._open:
            os.close(fd)
        return left

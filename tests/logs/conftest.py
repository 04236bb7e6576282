"""What the tests of the logs share: a reader at the other end of a console, and an oracle."""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress

import pytest

from elastic_fsm.launchers.streams import open_log
from elastic_fsm.logs.console import Console

WAIT = 30  # seconds after which something awaited counts as never coming


class Reader:
    """Reads a descriptor in a thread until its end, and lets tests await what it has read."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._data = bytearray()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        # A pty's master ends with EIO where a pipe ends with nothing.
        with suppress(OSError):
            while data := os.read(self.fd, 65536):
                with self._news:
                    self._data += data
                    self._news.notify_all()

    def await_data(self, wanted: bytes) -> bytes:
        """Wait until ``wanted`` has been read; return everything read so far."""
        with self._news:
            assert self._news.wait_for(lambda: wanted in self._data, WAIT), bytes(self._data[-500:])
            return bytes(self._data)

    def await_end(self) -> bytes:
        """Wait for the end of the file; return everything."""
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
        return bytes(self._data)


class Scene:
    """A console between two pipes, and log files to follow."""

    def __init__(self, folder, **options) -> None:
        self.folder = folder
        out, self.out_fd = os.pipe()
        err, self.err_fd = os.pipe()
        self.out, self.err = Reader(out), Reader(err)
        self.console = Console(out_fd=self.out_fd, err_fd=self.err_fd, **options)
        self._open = {out, err, self.out_fd, self.err_fd}

    def log(self, name: str, *, stream: str = "stdout", follow: bool = True) -> Log:
        """A new log file, followed with the prefix ``[name] ``."""
        log = Log(self.folder / f"{name}.log")
        self._open.add(log.fd)
        if follow:
            self.console.follow(log.path, stream=stream, prefix=b"[%s] " % name.encode())
        return log

    def end(self) -> tuple[bytes, bytes]:
        """Close the console and its pipes; return what came out of the two."""
        self.console.close(timeout=WAIT)
        self.close_fd(self.out_fd)
        self.close_fd(self.err_fd)
        return self.out.await_end(), self.err.await_end()

    def close_fd(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    def clean_up(self) -> None:
        self.console.close(timeout=0)
        for fd in (self.out_fd, self.err_fd, *self._open):
            self.close_fd(fd)


class Log:
    """A worker's log file, open for writing."""

    def __init__(self, path) -> None:
        self.path = path
        self.fd = open_log(path)

    def write(self, data: bytes) -> None:
        assert os.write(self.fd, data) == len(data)


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    scene.console.start()
    yield scene
    scene.clean_up()


@pytest.fixture
def idle_scene(tmp_path):
    """A scene whose console is not started."""
    scene = Scene(tmp_path)
    yield scene
    scene.clean_up()


@pytest.fixture(scope="session")
def echoed():
    """The oracle: what a stream looks like on a console that nobody else writes to."""

    def echoed(data: bytes, prefix: bytes) -> bytes:
        units = re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", data)
        out = b"".join(prefix + unit for unit in units)
        return out + b"\n" if out and out[-1:] != b"\n" else out

    return echoed


@pytest.fixture(scope="session")
def scene_class():
    return Scene


@pytest.fixture(scope="session")
def reader_class():
    return Reader

"""One console descriptor: what is to be written to it, written without ever blocking.

A console may be slow or stopped (``| less``, Ctrl-S). So that its thread can still serve the
other console, and end when told to, a sink writes only what is taken at once and keeps the rest.
The flag that makes a descriptor non-blocking is shared with everyone who holds the same open
file, often the user's shell, so we do not set it: we open the pipe or terminal a second time.
Where that is forbidden (a container's pipe that belongs to root) or impossible (a socket), we
ask for writability first and then write no more than a pipe takes without blocking.

Lines are kept apart here: when somebody else's bytes follow a line that is still open (it ended
in ``\\r``, or is a piece of an endless line), a newline goes between.

A console that is gone (``| head``, a terminal hung up, a full disk) takes everything and keeps
nothing: the workers' files have it all.
"""

from __future__ import annotations

import os
import select
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.logs.status import StatusLine

__all__ = ["Sink", "same_file", "write_now"]

# A pipe that is writable takes this much without blocking: Linux's PIPE_BUF.
_SAFE_BYTES = 4096


class Sink:
    """A console descriptor and its unwritten bytes. Only one thread may use it."""

    def __init__(self, fd: int, *, status: StatusLine | None = None) -> None:
        self.pending = 0  # bytes not yet taken by the console
        self.accepted = 0  # bytes put since the beginning
        self.error: OSError | None = None  # why the console is gone
        self.last_owner: object = None
        self._status = status
        self._parts: list[bytes] = []
        self._rest = memoryview(b"")
        self._last = b"\n"
        try:
            self.fd, self._is_ours, self._limit = _open_for_writing(fd)
        except OSError as error:
            self.fd, self._is_ours, self._limit = -1, False, 0
            self.error = error

    @property
    def taken(self) -> int:
        """Bytes that the console has taken; a console that is gone takes everything."""
        return self.accepted - self.pending

    @property
    def is_open_line(self) -> bool:
        """Whether the last line on the console is not ended by a newline."""
        return self._last != b"\n"

    def goes_on(self, owner: object) -> bool:
        """Whether this owner's next bytes would continue the console's open line."""
        return self.is_open_line and self.last_owner is owner

    def put(self, data: bytes, owner: object) -> None:
        """Queue bytes; the line stays open if they do not end in a newline."""
        if self.error or not data:
            return
        if self._status:
            self._append(self._status.hide())
        if self.is_open_line and self.last_owner is not owner:
            self._append(b"\n")
        self.last_owner, self._last = owner, data[-1:]
        self._append(data)

    def end_line(self) -> None:
        """Queue a newline if the last line is open."""
        if self.is_open_line:
            self.put(b"\n", self.last_owner)

    def draw_status(self) -> None:
        """Queue the status line below everything, if there is one and it has changed.

        Not while output is waiting: that would erase it again at once.
        """
        if self._status and not self.error and not self.pending:
            drawn = self._status.redraw(self.fd, below=self._last)
            if drawn and self._last != b"\r":
                self._last = b"\n"  # a line open in its middle was ended, its column is lost
            self._append(drawn)

    def flush(self) -> bool:
        """Write what the console takes now; False if it would have to be waited for."""
        while self.pending:
            try:
                written = self._write_some()
            except BlockingIOError:
                return False
            except OSError as error:
                self._give_up(error)
            else:
                self.pending -= written
                self._rest = self._rest[written:]
        return True

    def close(self) -> None:
        """Close our own descriptor; the caller's stays as it was."""
        if self._is_ours:
            os.close(self.fd)

    def _append(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self.pending += len(data)
            self.accepted += len(data)

    def _write_some(self) -> int:
        if not self._rest:
            self._rest = memoryview(b"".join(self._parts))
            self._parts.clear()
        if self._limit and not _is_writable(self.fd, 0):
            raise BlockingIOError
        return os.write(self.fd, self._rest[: self._limit] if self._limit else self._rest)

    def _give_up(self, error: OSError) -> None:
        self.error = error
        self._parts.clear()
        self._rest = memoryview(b"")
        self.pending = 0


def same_file(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same pipe, terminal or file (``2>&1``)."""
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


def write_now(fd: int, data: bytes, *, patience: float | None = None) -> None:
    """Write without a sink, waiting for the console; never raises.

    With ``patience``, gives up on a console that takes nothing for so many seconds.
    """
    rest = memoryview(data)
    try:
        while rest and _is_writable(fd, patience):
            rest = rest[os.write(fd, rest[:_SAFE_BYTES]) :]
    except OSError:
        return


def _is_writable(fd: int, seconds: float | None) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return bool(poller.poll(None if seconds is None else seconds * 1000))


def _open_for_writing(fd: int) -> tuple[int, bool, int]:
    """Return a descriptor, whether we opened it, and how much may be written at once (0: all)."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or not os.get_blocking(fd):
        return fd, False, 0
    if stat.S_ISFIFO(mode) or os.isatty(fd):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            return os.open(f"/proc/self/fd/{fd}", flags), True, 0
        except OSError:
            pass
    return fd, False, _SAFE_BYTES

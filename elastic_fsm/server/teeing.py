"""The console and the filtered copies of processes that were started with ``LogsSpecs``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from elastic_fsm.logs.console import Console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from elastic_fsm.logs.specs import LogsDest

__all__ = ["Teeing"]

_PATIENCE = 5.0
"""Seconds that a console gets to take the last lines."""


class Teeing:
    """Shows the teed streams of one attempt after the other, each line with its rank's prefix.

    The lines go to ``console``, by default one of its own, which waits for nobody before
    :meth:`close`. Lines that hold one of the filters are copied to one file for each stream.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._own: Console | None = None
        self._copies: Console | None = None
        self._followed: list[tuple[Console, Path]] = []
        self._descriptors: list[int] = []

    def attach(
        self,
        logs: LogsDest,
        prefixes: Mapping[int, str],
        stdout_filters: Sequence[str] = (),
        stderr_filters: Sequence[str] = (),
    ) -> None:
        """Make the files anew, and follow them."""
        for path in (*logs.stdouts.values(), *logs.stderrs.values()):
            if path:
                open(path, "w").close()
        filters = (stdout_filters, stderr_filters)
        if _files(logs.tee_stdouts) or _files(logs.tee_stderrs):
            self._follow(self._main_console(), logs, prefixes)
        if any(filters):
            paths = (logs.filtered_stdout, logs.filtered_stderr)
            out, err = map(self._copy, paths, filters)
            self._copies = Console(out_fd=out, err_fd=err, live_status=False)
            self._copies.start()
            self._follow(self._copies, logs, prefixes, filters)

    def detach(self) -> None:
        """The writers have ended: show what is left. Waits for files, and never for a console."""
        for console, path in self._followed:
            console.finish(path)
        if self._copies is not None:
            self._copies.close(_PATIENCE)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._followed, self._descriptors, self._copies = [], [], None

    def close(self) -> None:
        """Wait until a console of its own has taken everything. Calling it again does nothing."""
        self.detach()
        if self._own is not None:
            self._own.close(_PATIENCE)
            self._own = None

    def _main_console(self) -> Console:
        if self._console is not None:
            return self._console
        if self._own is None:
            self._own = Console()
            self._own.start()
        return self._own

    def _copy(self, path: str, filters: Sequence[str]) -> int:
        """The descriptor of a filtered copy; of the null device where there are no filters."""
        path = path if filters and path else os.devnull
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._descriptors.append(descriptor)
        return descriptor

    def _follow(
        self,
        console: Console,
        logs: LogsDest,
        prefixes: Mapping[int, str],
        filters: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    ) -> None:
        """All lines of a stream, or those that hold a word; with no words at all, none."""
        teed: dict[Literal["stdout", "stderr"], dict[int, str]] = {
            "stdout": logs.tee_stdouts,
            "stderr": logs.tee_stderrs,
        }
        for (stream, paths), words in zip(teed.items(), filters, strict=True):
            only = [word.encode() for word in words or ()]
            for rank, path in _files(paths).items() if words is None or only else ():
                prefix = prefixes[rank].encode()
                console.follow(Path(path), stream=stream, prefix=prefix, only=only)
                self._followed.append((console, Path(path)))


def _files(paths: Mapping[int, str]) -> dict[int, str]:
    return {rank: path for rank, path in paths.items() if path and path != os.devnull}

"""Log files as files: how a report reads their end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["last_lines", "why_nothing_is_kept"]


def last_lines(path: Path, count: int, *, limit_bytes: int = 64 * 1024) -> list[str]:
    """The last ``count`` lines of a file without their ends, oldest first.

    Only the file's last ``limit_bytes`` are read, so a huge log costs no more than a small one.
    A line cut by that limit is left out, unless it is the only one. Invalid UTF-8 is replaced;
    of a progress bar only its last picture (the text after the last carriage return) is kept.
    A file that is missing or cannot be read has no lines: a report about a failure must not
    fail over it.
    """
    try:
        data, is_cut = _read_end(path, limit_bytes)
    except OSError:
        return []
    lines = data.split(b"\n")
    if is_cut and len(lines) > 1 and any(lines[1:]):
        del lines[0]
    if not lines[-1]:
        del lines[-1]
    return [_as_shown(line) for line in lines[max(0, len(lines) - count) :]]


def why_nothing_is_kept(folder: Path) -> str:
    """That the disk is full, so that what a worker wrote last is lost; else empty."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    is_full = disk.f_blocks and not disk.f_bavail
    return f"the disk of {folder} is full, what it wrote last is lost" if is_full else ""


def _read_end(path: Path, limit: int) -> tuple[bytes, bool]:
    """The file's last bytes, and whether they begin in the middle of a line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        # One byte more than asked for tells whether the first line is whole.
        start = max(0, size - limit - 1)
        file.seek(start)
        data = file.read(size - start)
    if size <= limit:
        return data, False
    return data[1:], data[:1] != b"\n"


def _as_shown(line: bytes) -> str:
    """What a terminal would show of the line."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")

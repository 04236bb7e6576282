"""Where the workers' output goes, in the words of ``torch.distributed.elastic.multiprocessing``.

``<log_dir>/<run_id>_<random>/attempt_<n>/<local_rank>/{stdout.log,stderr.log,error.json}``, with
the filtered copies beside the ranks. A folder is made for each start and nothing is ever deleted:
where torch would empty the folder of an earlier start with the same number, the next one is used.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "to_map"]

_ONE = re.compile(r"[0-3]")
_MAPPING = re.compile(r"\d+:[0-3](,\d+:[0-3])*")
_CONSOLE = ""
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"


class Std(IntFlag):
    """Standard streams of a worker."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """``"3"`` for all ranks, ``"0:3,1:1"`` for some. Raises ``ValueError`` for other text."""
        if _ONE.fullmatch(vm):
            return cls(int(vm))
        if _MAPPING.fullmatch(vm):
            pairs = (entry.split(":") for entry in vm.split(","))
            return {int(rank): cls(int(value)) for rank, value in pairs}
        raise ValueError(
            f"{vm!r} names no streams; give 0 (none), 1 (stdout), 2 (stderr) or 3 (both), "
            "or these by local rank: 0:3,1:1"
        )


def to_map(val_or_map: Std | Mapping[int, Std], local_world_size: int) -> dict[int, Std]:
    """One value for each local rank; ranks that a mapping leaves out have ``Std.NONE``."""
    ranks = range(local_world_size)
    if isinstance(val_or_map, int):  # torch's Std is one, too
        return dict.fromkeys(ranks, Std(val_or_map))
    return {rank: Std(val_or_map.get(rank, Std.NONE)) for rank in ranks}


@dataclass
class LogsDest:
    """Paths by local rank. An empty one in ``stdouts`` and ``stderrs`` is the console; those of
    ``tee_stdouts`` and ``tee_stderrs`` are shown there, too."""

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """What becomes of the workers' output; ``reify`` makes paths of it at each start.

    ``redirects`` go to files, ``tee`` to files and the console; both for all ranks or by local
    rank. Ranks that are not in ``local_ranks_filter`` stay off the console (None: all are on it).
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: Collection[int] | None = None,
    ) -> None:
        self._root_log_dir = log_dir
        self._redirects = redirects
        self._tee = tee
        self._local_ranks_filter = local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The paths for workers with these environments, by local rank.

        Must also put ``TORCHELASTIC_ERROR_FILE`` into each environment.
        """

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The folder that holds everything."""


class DefaultLogsSpecs(LogsSpecs):
    """Files below ``log_dir``: by default a new folder for temporary files; ``os.devnull`` keeps
    nothing. Raises ``NotADirectoryError`` when ``log_dir`` is a file, ``ValueError`` for what
    names no streams or ranks."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: Collection[int] | None = None,
    ) -> None:
        _check_streams(redirects=redirects, tee=tee)
        if isinstance(local_ranks_filter, str):
            raise ValueError(f"local_ranks_filter must hold numbers, not {local_ranks_filter!r}")
        if not log_dir:
            log_dir = _new_folder("torchelastic_")
        elif log_dir != os.devnull:
            if os.path.exists(log_dir) and not os.path.isdir(log_dir):
                raise NotADirectoryError(f"log_dir is a file: {log_dir}")
            os.makedirs(log_dir, exist_ok=True)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str:
        """See :attr:`LogsSpecs.root_log_dir`."""
        return str(self._root_log_dir)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """See :meth:`LogsSpecs.reify`; makes the folders."""
        if self._root_log_dir == os.devnull:
            return _nothing_kept(envs)
        attempt = self._attempt_dir(envs.get(0, {}))
        dest = LogsDest(
            filtered_stdout=str(attempt / "filtered_stdout.log"),
            filtered_stderr=str(attempt / "filtered_stderr.log"),
        )
        for rank, env in envs.items():
            folder = attempt / str(rank)
            folder.mkdir()
            dest.error_files[rank] = env[_ERROR_FILE] = str(folder / "error.json")
        self._place(dest, attempt, "stdout", Std.OUT, dest.stdouts, dest.tee_stdouts)
        self._place(dest, attempt, "stderr", Std.ERR, dest.stderrs, dest.tee_stderrs)
        return dest

    def _place(
        self,
        dest: LogsDest,
        attempt: Path,
        name: str,
        stream: Std,
        paths: dict[int, str],
        tee_paths: dict[int, str],
    ) -> None:
        """Fill in the paths of one stream."""
        ranks = dest.error_files
        redirects, tee = to_map(self._redirects, len(ranks)), to_map(self._tee, len(ranks))
        for rank in ranks:
            is_shown = not self._local_ranks_filter or rank in self._local_ranks_filter
            if stream in redirects[rank] | tee[rank]:
                paths[rank] = str(attempt / str(rank) / f"{name}.log")
            else:
                paths[rank] = _CONSOLE if is_shown else os.devnull
            if stream in tee[rank] and is_shown:
                tee_paths[rank] = paths[rank]

    def _attempt_dir(self, env: Mapping[str, str]) -> Path:
        if self._run_log_dir is None:
            run_id = env.get("TORCHELASTIC_RUN_ID", "run").replace(os.sep, "_")
            self._run_log_dir = _new_folder(f"{run_id}_", self._root_log_dir)
        number = int(env.get("TORCHELASTIC_RESTART_COUNT") or 0)
        while True:
            folder = Path(self._run_log_dir, f"attempt_{number}")
            try:
                folder.mkdir()
            except FileExistsError:  # a restart that was nobody's failure is not counted
                number += 1
            else:
                return folder

    def __repr__(self) -> str:
        return (
            f"DefaultLogsSpecs(log_dir={self._root_log_dir!r}, redirects={self._redirects!r}, "
            f"tee={self._tee!r}, local_ranks_filter={self._local_ranks_filter!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DefaultLogsSpecs) and self._settings() == other._settings()

    __hash__ = None  # type: ignore[assignment]

    def _settings(self) -> tuple[object, ...]:
        return self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter


def _check_streams(**given: object) -> None:
    for name, value in given.items():
        values = value.values() if isinstance(value, dict) else [value]
        if not all(isinstance(one, int) and 0 <= one <= Std.ALL for one in values):
            raise ValueError(f"{name} must be a Std, or a dict of them by rank, not {value!r}")


def _new_folder(prefix: str, place: str | None = None) -> str:
    import tempfile  # slow to load, and the command line has folders of its own

    return tempfile.mkdtemp(prefix=prefix, dir=place)


def _nothing_kept(envs: dict[int, dict[str, str]]) -> LogsDest:
    for env in envs.values():
        env[_ERROR_FILE] = ""
    console, null = dict.fromkeys(envs, _CONSOLE), dict.fromkeys(envs, os.devnull)
    return LogsDest(
        stdouts=console,
        stderrs=dict(console),
        tee_stdouts=null,
        tee_stderrs=dict(null),
        error_files=dict(null),
    )

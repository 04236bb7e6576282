"""Functions on their way to a worker, and what they return or raise on the way back.

Both travel in files without a name, so that their size does not matter and nobody waits for a
reader. The pickling is that of ``multiprocessing``: what may be handed to a process there
(queues, locks, connections, shared tensors) may be handed over here.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from elastic_fsm.launchers.child import EXCEPTION, VALUE, Inherited
from elastic_fsm.launchers.choice import check_start_method

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

__all__ = ["Outcome", "check_function", "name_of", "pack_call", "unnamed_file"]


def unnamed_file(name: str) -> IO[bytes]:
    """A file that only descriptors lead to: in memory, or where there is none of that on disk."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create(name), "w+b")
    import tempfile  # slow to load

    return tempfile.TemporaryFile()


def name_of(function: Callable[..., Any]) -> str:
    """How the user calls it."""
    return getattr(function, "__qualname__", None) or repr(function)


def check_function(
    function: Callable[..., Any], args: Sequence[Any] = (), *, start_method: str = "spawn"
) -> None:
    """Make sure that a function with its arguments can be handed to a worker.

    Raises ``ValueError`` that names the function, says why not, and what to do; and for a start
    method that there is not.
    """
    check_start_method(start_method)
    if start_method == "fork":
        return
    advice = "; define it at the top level of a module, or use start_method=fork"
    problem = _not_found_again(function) or _not_pickled(function)
    if problem:
        raise ValueError(f"the function {name_of(function)} cannot be started: {problem}{advice}")
    problem = _not_pickled(tuple(args))
    if problem:
        raise ValueError(
            f"the arguments of the function {name_of(function)} cannot be handed to it: {problem}; "
            "pass what can be pickled, or use start_method=fork"
        )


def _not_found_again(function: Callable[..., Any]) -> str:
    main = sys.modules["__main__"]
    is_file = os.path.isfile(getattr(main, "__file__", None) or "")
    if getattr(function, "__module__", "") == "__main__" and not is_file:
        return "a new process cannot import it, for the main program is not a file"
    return ""


def _not_pickled(thing: Any) -> str:
    try:
        _dump(thing, _Nowhere(), _Passing())
    except Exception as error:  # whatever a class of the user's raises when it is pickled
        return str(error) or type(error).__name__
    return ""


def pack_call(
    file: IO[bytes], function: Callable[..., Any], args: Sequence[Any], cwd: str | None
) -> list[int]:
    """Write a call for :func:`child.load_and_call`; the descriptors that the worker must get, too.

    Raises ``OSError`` for what cannot be pickled: the worker cannot be started.
    """
    from multiprocessing import resource_tracker, spawn

    preparation = spawn.get_preparation_data(name_of(function))
    preparation["dir"] = cwd or os.getcwd()
    passing = _Passing()
    tracker = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]
    try:
        shared = None if tracker is None else passing.DupFd(passing.duplicate_for_child(tracker))
        _dump((preparation, shared), file, passing)
        _dump((function, tuple(args)), file, passing)
    except Exception as error:  # whatever a class of the user's raises when it is pickled
        raise OSError(errno.EINVAL, f"it cannot be pickled: {error}", name_of(function)) from error
    file.flush()
    return passing.descriptors


class _Passing:
    """What ``multiprocessing`` asks about the process that is being started."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def duplicate_for_child(self, descriptor: int) -> int:
        """Note a descriptor that the worker must get; its place among them."""
        self.descriptors.append(descriptor)
        return len(self.descriptors) - 1

    def DupFd(self, place: int) -> Inherited:
        """What stands for that descriptor in the pickle; the name is ``multiprocessing``'s."""
        return Inherited(place)


class _Nowhere(io.RawIOBase):
    """Takes everything: a pickle that only shows that it can be made."""

    def write(self, data: Any) -> int:
        return len(data)


def _dump(thing: Any, file: Any, passing: _Passing) -> None:
    from multiprocessing import context, reduction

    before = context.get_spawning_popen()
    context.set_spawning_popen(passing)  # type: ignore[arg-type]
    try:
        reduction.dump(thing, file, pickle.HIGHEST_PROTOCOL)
    finally:
        context.set_spawning_popen(before)


class Outcome:
    """Where a function's value or exception is put, to be taken when its process has ended."""

    def __init__(self) -> None:
        self._file = unnamed_file("outcome")

    def fileno(self) -> int:
        """The descriptor that the worker must get."""
        return self._file.fileno()

    def take(self) -> tuple[Any, BaseException | None]:
        """The value, or the exception with its traceback as a note; both None: it left nothing.

        Raises whatever a value raises that cannot be unpickled here.
        """
        with self._file as file:
            file.seek(0)
            kind = file.read(1)
            if kind == VALUE:
                return pickle.load(file), None
            return None, _exception_in(file) if kind == EXCEPTION else None

    def close(self) -> None:
        """Give it up; calling it again does nothing."""
        self._file.close()


def _exception_in(file: IO[bytes]) -> BaseException | None:
    """None for one that cannot be made again here: its text is in the error file."""
    try:
        error, text = pickle.load(file)
        error.add_note(f"raised in a worker:\n{text.rstrip()}")
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None

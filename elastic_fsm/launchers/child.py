"""The worker's side of a function, and of a worker that is forked: up to the user's own code.

Runs in the worker, so it imports nothing of the agent. A call comes as two pickles in one file:
what ``multiprocessing`` needs to find the user's main module, and the function with its
arguments. The outcome goes into another file: one byte that says what it is, written last, and
a pickle. Nobody has to read it while the worker lives, so nothing can get stuck. A function that
closes descriptors which are not its own may close that file's, and open one of its own in the
place: nothing is ever written there.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NoReturn

from elastic_fsm import worker
from elastic_fsm.worker import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

__all__ = [
    "EXCEPTION",
    "VALUE",
    "Inherited",
    "call",
    "call_in_fork",
    "default_signals",
    "load_and_call",
    "main",
    "show_only_their_frames",
]

VALUE, EXCEPTION = b"V", b"E"

_inherited: list[int] = []


class Inherited:
    """A descriptor among the arguments, in the place of ``multiprocessing``'s own class for it."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """The descriptor in this process."""
        return _inherited[self._index]


def main(order: int, outcome: int, *inherited: int) -> None:
    """Of a fresh interpreter: the whole of it."""
    show_only_their_frames()
    load_and_call(os.fdopen(order, "rb"), inherited, outcome)


class _Outcome:
    """The file of the outcome, as long as the descriptor is still that file's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._was = os.fstat(descriptor)

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it, nor put another file in its place."""
        try:
            return os.path.samestat(self._was, os.fstat(self._descriptor))
        except OSError:
            return False

    def save(self, kind: bytes, thing: Any) -> None:
        with open(self._descriptor, "wb", closefd=False) as file:
            file.seek(1)
            pickle.dump(thing, file, pickle.HIGHEST_PROTOCOL)
        os.pwrite(self._descriptor, kind, 0)


def load_and_call(file: IO[bytes], inherited: Sequence[int], outcome: int) -> None:
    """Import the user's main module if need be, and run the function that the file tells; it is
    closed before, for its arguments may be large."""
    for descriptor in (outcome, *inherited):
        os.set_inheritable(descriptor, False)  # not for the programs that the function starts
    with _kept(_Outcome(outcome)), file:
        loaded = _load(file, inherited)
    if loaded is not None:  # that module may have ended the process in good order
        call(*loaded, outcome)


@record
def _load(file: IO[bytes], inherited: Sequence[int]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from multiprocessing import process, resource_tracker, spawn

    _inherited[:] = inherited
    preparation, tracker = pickle.load(file)
    if tracker is not None:
        resource_tracker._resource_tracker._fd = tracker.detach()  # type: ignore[attr-defined]
    # Refuses the start of more workers by a main module without its `if __name__ == "__main__"`.
    process.current_process()._inheriting = True  # type: ignore[attr-defined]
    try:
        spawn.prepare(preparation)
        function, args = pickle.load(file)
    finally:
        del process.current_process()._inheriting  # type: ignore[attr-defined]
    return function, args


def call(function: Callable[..., Any], args: Sequence[Any], outcome: int) -> None:
    """Run the function; what it raises is written to the error file, kept, and passed on."""
    file = _Outcome(outcome)
    with _kept(file):
        value = record(function)(*args)
    _save_value(file, value)


@contextmanager
def _kept(outcome: _Outcome) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(type(error), error, _theirs(error.__traceback__)))
        if outcome.is_open:
            with suppress(Exception):  # one that cannot be sent is in the error file all the same
                outcome.save(EXCEPTION, (error, text))
        raise


@record
def _save_value(outcome: _Outcome, value: Any) -> None:
    if not outcome.is_open:
        if value is not None:  # else nothing is lost
            raise RuntimeError(
                f"the return value of {_who()} is lost: its function closed the descriptor that "
                "takes it; close only what the function has opened, or return nothing"
            )
        return
    try:
        outcome.save(VALUE, value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        message = f"the return value of {_who()}, of type {kind}, cannot be pickled: {error}"
        raise TypeError(message) from None


def _who() -> str:
    rank, local_rank = os.environ.get("RANK", "?"), os.environ.get("LOCAL_RANK")
    return f"rank {rank} (local rank {local_rank}) on {os.uname().nodename}"


def show_only_their_frames() -> None:
    """Let an uncaught exception look as if the user's code were all there is."""
    sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    trace = _theirs(trace)
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames that lead to the user's code."""
    ours = (os.path.dirname(__file__), worker.__file__, "<string>")
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    return trace


# -- a fork of the user's own program ------------------------------------------------------------


def default_signals() -> None:
    """As after an exec: what the program handles has its usual effect, what it ignores stays so."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        with suppress(OSError, ValueError):  # SIGKILL and the like
            if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def call_in_fork(function: Callable[..., Any], args: Sequence[Any], outcome: int) -> NoReturn:
    """Run the function and end the process; nothing of the surrounding program runs again."""
    code = 1
    try:
        atexit._clear()
        _forget_other_processes()
        _new_streams()
        show_only_their_frames()
        code = _exit_code_of(function, args, outcome)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush()
    finally:
        os._exit(code)


def _forget_other_processes() -> None:
    """The program's children are not the worker's: it must not wait for them at its end."""
    if "multiprocessing.util" in sys.modules:
        from multiprocessing import process, util

        process._children.clear()  # type: ignore[attr-defined]
        util._finalizer_registry.clear()  # type: ignore[attr-defined]
        util._run_after_forkers()  # type: ignore[attr-defined]
        atexit.register(util._exit_function)  # type: ignore[attr-defined]


def _new_streams() -> None:
    """The program may have put something else in their place, as notebooks and pytest do."""
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")


def _exit_code_of(function: Callable[..., Any], args: Sequence[Any], outcome: int) -> int:
    """What the interpreter itself would make of the end of its main program."""
    try:
        call(function, args, outcome)
    except SystemExit as leave:
        if isinstance(leave.code, int | None):
            return (leave.code or 0) & 0xFF
        print(leave.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            _flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()

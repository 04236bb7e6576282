"""What a worker may use: ``record`` leaves an error file for the agent's report.

Standard library only, so that importing it into a training script costs nothing. The file is
the one that ``torch.distributed.elastic`` writes; its name comes in ``TORCHELASTIC_ERROR_FILE``.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ErrorHandler", "get_error_handler", "record"]

P = ParamSpec("P")
R = TypeVar("R")


class ErrorHandler:
    """Writes what went wrong to the error file of this process.

    A subclass may write it elsewhere (:meth:`_get_error_file_path`) or tell somebody else, too
    (:meth:`record_exception`).
    """

    def _get_error_file_path(self) -> str | None:
        """Where to write; None writes nothing."""
        return os.environ.get("TORCHELASTIC_ERROR_FILE") or None

    def initialize(self) -> None:
        """Before the function runs: stacks are dumped should the interpreter itself crash."""
        with suppress(Exception):  # no usable standard error: the stack dump is a luxury
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, where there is a file that can be written."""
        self._write(_describe(e))

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy a child's file to this process's own, with the child's exit code."""
        try:
            with open(rootcause_error_file, encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, ValueError) as error:  # absent, or cut off by the death of its writer
            data = {"message": f"{rootcause_error_file} cannot be read: {error}"}
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, data, error_code)
        self._write(data)

    def override_error_code_in_rootcause_data(
        self, rootcause_error_file: str, rootcause_error: dict[str, Any], error_code: int = 0
    ) -> None:
        """Note the exit code in what a child's file holds; a message of text has no room for it."""
        message = rootcause_error.get("message")
        if isinstance(message, dict):
            message["errorCode"] = error_code

    def _write(self, data: dict[str, Any]) -> None:
        path = self._get_error_file_path()
        if path:
            with suppress(OSError):
                # Whole or not at all: the agent may read it at any moment.
                unfinished = f"{path}.{os.getpid()}"
                with open(unfinished, "w", encoding="utf-8") as file:
                    json.dump(data, file)
                os.replace(unfinished, path)


def get_error_handler() -> ErrorHandler:
    """The handler that :func:`record` uses when it is given none."""
    return ErrorHandler()


@overload
def record(
    fn: Callable[P, R], error_handler: ErrorHandler | None = ...
) -> Callable[P, R | None]: ...


@overload
def record(
    fn: None = ..., error_handler: ErrorHandler | None = ...
) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...


def record(fn: Callable[P, R] | None = None, error_handler: ErrorHandler | None = None) -> Any:
    """Write an exception of ``fn`` to the error file of this process, and let it pass.

    Of a ``ChildFailedError`` that is the file of the first child that failed. A ``SystemExit``
    with code 0 is an ordinary end: None is returned. Other ones pass. Outside of an agent, or
    when the file cannot be written, nothing is written.
    """
    handler = error_handler or get_error_handler()
    if fn is None:
        return functools.partial(record, error_handler=handler)

    @functools.wraps(fn)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as leave:
            if leave.code in (None, 0):
                return None
            raise
        except Exception as error:
            _record(handler, error)
            raise

    return recorded


def _record(handler: ErrorHandler, error: Exception) -> None:
    first = getattr(error, "get_first_failure", None)  # of a ChildFailedError, torch's or ours
    if first is None:
        handler.record_exception(error)
        return
    _, failure = first()
    if os.path.isfile(failure.error_file):
        handler.dump_error_file(failure.error_file, failure.exitcode)
    else:
        handler.record_exception(error)


def _describe(error: BaseException) -> dict[str, Any]:
    # The first frame is ours, and says nothing about the error.
    stack = error.__traceback__ and (error.__traceback__.tb_next or error.__traceback__)
    return {
        "message": {
            "message": f"{type(error).__name__}: {_text_of(error)}",
            "extraInfo": {
                "py_callstack": "".join(traceback.format_exception(type(error), error, stack)),
                "timestamp": str(time.time()),
            },
        }
    }


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # one that cannot be shown must not hide that there was one
        return "(its text cannot be shown)"

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
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["record"]

P = ParamSpec("P")
R = TypeVar("R")


def record(function: Callable[P, R]) -> Callable[P, R | None]:
    """Write an exception of ``function`` to the worker's error file, and let it pass.

    A ``SystemExit`` with code 0 is an ordinary end: None is returned. Other ones pass. Outside
    of an agent, or when the file cannot be written, nothing is written.
    """

    @functools.wraps(function)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        with suppress(Exception):  # no usable standard error: the stack dump is a luxury
            faulthandler.enable(all_threads=True)
        try:
            return function(*args, **kwargs)
        except SystemExit as leave:
            if leave.code in (None, 0):
                return None
            raise
        except Exception as error:
            _write(error)
            raise

    return recorded


def _write(error: BaseException) -> None:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        with suppress(OSError):
            # Whole or not at all: the agent may read it at any moment.
            unfinished = f"{path}.{os.getpid()}"
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump(_describe(error), file)
            os.replace(unfinished, path)


def _describe(error: BaseException) -> dict[str, Any]:
    # The first frame is ours, and says nothing about the error.
    stack = error.__traceback__ and (error.__traceback__.tb_next or error.__traceback__)
    return {
        "message": {
            "message": f"{type(error).__name__}: {error}",
            "extraInfo": {
                "py_callstack": "".join(traceback.format_exception(type(error), error, stack)),
                "timestamp": str(time.time()),
            },
        }
    }

"""A handler of the user's that fails: told of once, and never the end of a run."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elastic_fsm.failures import is_told_to_stop
from elastic_fsm.problems import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["harmless"]

log = logging.getLogger("elastic_fsm")

_told: list[object] = []
"""Handlers that have failed; not a set, for theirs is to say how they compare."""


@contextmanager
def harmless(handler: object, kind: str) -> Iterator[None]:
    """What ``handler``, a ``kind`` of handler, raises in the block ends here; but a stop signal,
    which may come at any time, goes on."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if is_told_to_stop(error):
            raise
        if not any(handler is told for told in _told):
            _told.append(handler)
            what = error_text(error).partition("\n")[0]
            text = "the %s %s failed: %s (told once; the run goes on)"
            log.warning(text, kind, type(handler).__qualname__, what)

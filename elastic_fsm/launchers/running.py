"""One worker, from its start to its being reaped: whether it lives, and what ended it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from elastic_fsm.failures import CODE_IS_LOST
from elastic_fsm.launchers.oom import explain_sigkill, oom_kills
from elastic_fsm.launchers.stopping import signal_group

if TYPE_CHECKING:
    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.launchers.starters import Child

__all__ = ["Running"]

_ASKED_FOR = "sent by the agent, as the machine or a scenario asked"
_LOST = (
    "its real exit code is lost: something else in this program has reaped it "
    "(a wait for any child, or SIGCHLD is ignored)"
)
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Running:
    """A worker that was started and has not been reaped.

    ``exit_code`` is None until the loop has been told of its end.
    """

    __slots__ = ("_told", "_told_why", "child", "exit_code", "plan", "stopped_by_agent")

    def __init__(self, plan: WorkerPlan, child: Child) -> None:
        self.plan = plan
        self.child = child
        self.exit_code: int | None = None
        self.stopped_by_agent = False
        self._told = ""  # the last signal that it was sent without being stopped
        self._told_why = ""

    def is_alive(self) -> bool:
        """By the kernel, which may know of an end that the loop has not been told of yet."""
        if self.exit_code is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.child.pid, _LOOK) is None
        except ChildProcessError:
            return False

    def tell(self, name: str, why: str) -> None:
        """Send its group a signal; if that ends it, ``why`` is the reason."""
        self._told = name
        self._told_why = why or _ASKED_FOR
        signal_group(self.child.pid, signal.Signals[name])

    @property
    def failed_with_a_code(self) -> bool:
        """Whether it failed by itself, and did not die of a signal."""
        return not self.stopped_by_agent and self.exit_code is not None and self.exit_code > 0

    def explain(self, exit_code: int, oom_kills_before: int | None) -> str:
        """Where a deadly signal may have come from, or why an exit code means nothing."""
        if self._told and exit_code == -signal.Signals[self._told]:
            return self._told_why
        if exit_code == -signal.SIGKILL:
            return explain_sigkill(oom_kills_before, oom_kills())
        return _LOST if exit_code == CODE_IS_LOST and self._is_reaped() else ""

    def _is_reaped(self) -> bool:
        """Whether it cannot be waited for any more, now that it has ended."""
        try:
            os.waitid(os.P_PID, self.child.pid, _LOOK)
        except ChildProcessError:
            return True
        return False

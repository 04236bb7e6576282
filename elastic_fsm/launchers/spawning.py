"""Functions in fresh interpreters: each worker imports what it needs, and shares nothing."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from elastic_fsm.launchers.functions import Outcome, pack_call, unnamed_file
from elastic_fsm.launchers.starters import ROOT, Child, CommandStarter, open_process

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elastic_fsm.launchers.base import WorkerPlan
    from elastic_fsm.launchers.streams import Streams

__all__ = ["SpawnStarter"]

_CODE = (
    "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv[1]]; "
    "from elastic_fsm.launchers.child import main; main(*map(int, sys.argv[2:]))"
)


class SpawnStarter(CommandStarter):
    """Functions, each in a fresh interpreter; commands, too."""

    def start(self, worker: WorkerPlan, env: Mapping[str, str], streams: Streams) -> Child:
        """See :meth:`Starter.start`."""
        if worker.function is None:
            return super().start(worker, env, streams)
        with ExitStack() as in_vain, unnamed_file("call") as order:
            outcome = Outcome()
            in_vain.callback(outcome.close)
            passed = pack_call(order, worker.function, worker.args, worker.cwd)
            order.seek(0)
            given = [order.fileno(), outcome.fileno(), *passed]
            argv = [sys.executable, "-c", _CODE, ROOT, *map(str, given)]
            popen = open_process(argv, env, streams, cwd=worker.cwd, passed=given)
            in_vain.pop_all()
        return Child(popen.pid, popen.wait, outcome=outcome)

"""What every launcher, rendezvous and store must keep, as tests to inherit.

    class TestMyLauncher(ProcessLauncherContract):
        def make_launcher(self, loop):
            return MyLauncher(loop)

pytest then runs every check of the contract against yours. The suites need nothing of pytest but
that it calls ``setup_method`` and ``teardown_method``; a loop with a manual clock makes them run
in virtual time.
"""

from __future__ import annotations

from elastic_fsm.testing.contracts.base import Contract
from elastic_fsm.testing.contracts.launcher import LauncherContract
from elastic_fsm.testing.contracts.process import ProcessLauncherContract
from elastic_fsm.testing.contracts.rendezvous import RendezvousContract
from elastic_fsm.testing.contracts.store import StoreContract

__all__ = [
    "Contract",
    "LauncherContract",
    "ProcessLauncherContract",
    "RendezvousContract",
    "StoreContract",
]

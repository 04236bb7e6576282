"""Ctrl-Z: the workers stand still with the agent, and go on with it.

The terminal tells only the agent's own process group. Each worker leads a session of its own,
where the kernel would not even carry SIGTSTP out; so its group gets SIGSTOP. The agent takes the
same signal itself, and goes on here at SIGCONT (``fg``). Its clock went on meanwhile, so all
timers are moved by as much: what was left of a grace or a delay before is left after.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic_fsm.agent import Agent
    from elastic_fsm.logs.console import Console

__all__ = ["suspend"]

_PATIENCE = 1.0
"""Seconds that a console gets to take the last words before the agent stands still."""


def suspend(agent: Agent, console: Console) -> None:
    """Stop the workers' groups and this process; returns when somebody has continued it."""
    began = agent.loop.clock.now()
    agent.launcher.signal("SIGSTOP")
    agent.remark("suspended by SIGTSTP, together with the workers")
    console.status(None)
    console.drain(_PATIENCE)
    signal.raise_signal(signal.SIGSTOP)
    agent.launcher.signal("SIGCONT")
    seconds = agent.loop.clock.now() - began
    agent.loop.postpone(seconds)
    agent.remark(f"continued by SIGCONT after {seconds:.0f} s")

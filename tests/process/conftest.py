"""What the tests with real processes share."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(autouse=True)
def _no_inherited_ignores():
    """A background job of a shell ignores some signals, and so would our agents."""
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    ignored = [name for name in names if signal.getsignal(name) is signal.SIG_IGN]
    for name in ignored:
        signal.signal(name, signal.SIG_DFL)
    yield
    for name in ignored:
        signal.signal(name, signal.SIG_IGN)


@pytest.fixture
def hold(scene):
    """A plug-in action ``hold`` that rings the bell and waits at the gate, in the agent.

    ``hold("STARTING", …)`` makes the words that put it at the end of a state's entry.
    """
    scene.write(
        "holding.py",
        "import os\n"
        "from elastic_fsm import action\n"
        "@action\n"
        "def hold(agent, event):\n"
        "    with open(os.environ['BELL'], 'w') as bell:\n"
        "        bell.write(f'hold {agent.machine.state.name}\\n')\n"
        "    with open(os.environ['GATE'], 'rb', buffering=0) as gate:\n"
        "        gate.read(1)\n",
    )

    def words(state: str, *others: str) -> list[str]:
        actions = ", ".join([*others, "hold"])
        return ["plugins=[holding]", f"machine.states.{state}.on_enter=[{actions}]"]

    return words

"""What a run needs of this process and its system, whatever it will run.

It is opened before the run has a folder. So what cannot be had (no more processes, say) leaves
nothing behind; and a stop signal that finds a folder finds, too, who will write its report.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from elastic_fsm.launchers.choice import make_starter
from elastic_fsm.launchers.environment import common_environment
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.sources.commands import Commands
from elastic_fsm.sources.exits import Exits
from elastic_fsm.sources.signals import loop_with_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from elastic_fsm.launchers.starters import Starter
    from elastic_fsm.loop import Loop
    from elastic_fsm.preparing import Prepared
    from elastic_fsm.sources.signals import Signals

__all__ = ["Runtime", "open_runtime"]


class Runtime(NamedTuple):
    """Signals are taken up, and workers can be started."""

    loop: Loop
    signals: Signals
    exits: Exits
    commands: Commands
    launcher: SubprocessLauncher


@contextmanager
def open_runtime(
    prepared: Prepared, say: Callable[[str], None], *, sole_owner: bool
) -> Iterator[Runtime]:
    """Take up the signals, and start what guards the workers; ``say`` gets the agent's words.

    At the end the program has its signals back, also those that nobody has taken up.
    Raises ``OSError`` where the processes that the launcher needs cannot be started.
    """
    heard = prepared.machine.rules.heard(prepared.values["stop"]["signals"])
    with ExitStack() as opened:
        loop, signals = opened.enter_context(loop_with_signals(heard))
        exits = Exits(loop)
        commands = Commands(loop, exits, say)
        launcher = SubprocessLauncher(
            loop,
            exits,
            kill_timeout=prepared.values["stop"]["kill_timeout"],
            sole_owner=sole_owner,
            bystanders=commands.pids,
            starter=_starter(prepared, loop, exits, say),
            say=say,
        )
        opened.callback(launcher.close)
        commands.env.update(launcher.marking)
        signals.call(signal.SIGCHLD, launcher.child_ended)
        yield Runtime(loop, signals, exits, commands, launcher)


def _starter(prepared: Prepared, loop: Loop, exits: Exits, say: Callable[[str], None]) -> Starter:
    launcher = prepared.values["launcher"]
    return make_starter(
        launcher["name"],
        loop=loop,
        exits=exits,
        start_method=launcher["start_method"],
        preload=launcher["preload"],
        env=common_environment(prepared.spec),
        say=say,
    )

"""Everything that can happen to a machine, looked through: a proof, or a way to break it.

Theory of operation. A *configuration* is the machine's state with what matters around it: what
has been asked and not been answered, which timers are armed, how much of the budget is left and
whether a restart is owed to it, whether workers run. From the beginning, breadth first, every
event that may come then is tried:

* asked for something, whoever was asked answers once, with one of the events that the action
  declares (``spare_assigned`` leaves the question open);
* an armed timer fires that no other one surely comes before (one from a delay that may be never
  may not be armed, one from a delay that raises is not), and none before what is answered at once:
  the request to run, and a stop where no worker was started;
* workers that run may end, well or badly, one by one or the last of them;
* signals, membership changes and errors of the agent's own may come at any time;
* any action may fail, which skips the rest of the step's actions.

Conditions are free choices, the same within one step, but for those whose truth follows from the
configuration: ``restart_allowed``, ``all_succeeded``, ``worker_failed`` and ``signal_in``. A
budget of two is enough: a machine sees of it only whether something is left.

The exploration is breadth first, so the first way that is found to break a claim is a shortest.
Whether the run comes to an end is asked when all configurations are known: see ``endings``.
"""

from __future__ import annotations

from elastic_fsm.exploration.model import CLAIMS, Exploration, Finding, Move, Workers
from elastic_fsm.exploration.search import explore

__all__ = ["CLAIMS", "Exploration", "Finding", "Move", "Workers", "explore"]

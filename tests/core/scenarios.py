"""The shipped machines as stories: what happens, the way the machine takes, and the end.

A scenario is a function that writes the script; its decorator says on which machines it is
played and what must come of it. ``path`` names the transitions and the states they lead to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from elastic_fsm.registry import action
from elastic_fsm.testing import OnStop, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SCENARIOS", "START", "Story", "explosive"]

START = "begin JOINING, joined STARTING, started HEALTHY"
AGAIN = "again JOINING, joined STARTING, started HEALTHY"
IGNORES_SIGNALS = OnStop(takes=None)


@action
def explode(agent, event):
    raise OSError("boom")


explosive = ModuleType("explosive")
explosive.explode = explode


@dataclass(frozen=True)
class Story:
    """A scenario with what is expected of it; ``end`` is the final state and the exit code."""

    machine: str
    script: Callable[[Scenario], None]
    path: str
    end: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.machine}-{self.script.__name__}"

    def play(self) -> tuple[Scenario, str, str]:
        run = Scenario(self.machine, plugins=[explosive], **self.settings)
        self.script(run)
        result = run.play()
        path = ", ".join(f"{transition} {state}" for transition, state in run.path)
        return run, path, f"{run.agent.machine.state.name} {result.exit_code}"


SCENARIOS: list[Story] = []


def scenario(*machines: str, path: str, end: str, **settings: Any):
    def add(script):
        SCENARIOS.extend(Story(m, script, path, end, settings) for m in machines)
        return script

    return add


BOTH = ("elastic", "fail_fast")

# -- to the good end ---------------------------------------------------------------------------


@scenario(
    *BOTH,
    path=f"{START}, worker_done HEALTHY, all_done SETTLING, settled SUCCEEDED",
    end="SUCCEEDED 0",
)
def all_workers_succeed(run):
    run.exits(1, at=10)
    run.exits(0, at=20)


@scenario(
    *BOTH,
    path="begin JOINING, joined STARTING, worker_done STARTING, worker_done STARTING, "
    "early_finish SETTLING, settled SUCCEEDED",
    end="SUCCEEDED 0",
)
def workers_are_done_before_the_start_is(run):
    run.launcher.start_takes = 3.0
    run.exits(0, at=1)
    run.exits(1, at=2)


@scenario(
    *BOTH,
    path=f"{START}, worker_done HEALTHY, all_done SETTLING, settled_alone SUCCEEDED",
    end="SUCCEEDED 0",
)
def other_nodes_are_late_at_the_end(run):
    run.at(5, setattr, run.rendezvous, "answering", False)
    run.exits(0, at=10)
    run.exits(1, at=10)


# -- rendezvous --------------------------------------------------------------------------------


@scenario(
    "elastic",
    path="begin JOINING, stand_by STANDBY, joined STARTING, started HEALTHY, "
    "worker_done HEALTHY, all_done SETTLING, settled SUCCEEDED",
    end="SUCCEEDED 0",
)
def a_spare_node_steps_in(run):
    run.rendezvous.answering = False
    run.at(1, run.rendezvous.answer, "spare_assigned")
    run.at(700, run.rendezvous.complete)  # a spare may wait for longer than a join may take
    run.exits(0, at=800)
    run.exits(1, at=800)
    run.at(800, run.rendezvous.answer, "barrier_passed")


@scenario(*BOTH, path="begin JOINING, stand_by STANDBY, not_needed SUCCEEDED", end="SUCCEEDED 0")
def a_spare_node_is_never_needed(run):
    run.rendezvous.answering = False
    run.at(1, run.rendezvous.answer, "spare_assigned")
    run.at(9000, run.rendezvous.answer, "run_finished")


@scenario(*BOTH, path="begin JOINING, not_needed SUCCEEDED", end="SUCCEEDED 0")
def the_run_is_over_when_a_node_comes(run):
    run.rendezvous.answering = False
    run.at(1, run.rendezvous.answer, "run_finished")


@scenario(*BOTH, path="begin JOINING, no_rendezvous FAILED", end="FAILED 1")
def the_nodes_cannot_agree(run):
    run.rendezvous.answering = False
    run.at(1, lambda: run.rendezvous.answer("rendezvous_failed", reason="closed"))


@scenario(*BOTH, path="begin JOINING, no_quorum FAILED", end="FAILED 1")
def too_few_nodes_come(run):
    run.rendezvous.answering = False


@scenario(
    "elastic",
    path=f"{START}, reform REFORMING, reformed JOINING, joined STARTING, started HEALTHY, "
    "worker_done HEALTHY, all_done SETTLING, settled SUCCEEDED",
    end="SUCCEEDED 0",
)
def a_node_comes_and_the_group_is_formed_anew(run):
    run.post("membership_changed", at=10, reason="node-1 came")
    run.exits(0, at=20)
    run.exits(1, at=20)


@scenario(
    "elastic",
    path=f"{START}, reform REFORMING, finished_anyway SETTLING, settled SUCCEEDED",
    end="SUCCEEDED 0",
)
def workers_are_done_when_the_nodes_change(run):
    run.post("membership_changed", at=10)
    run.exits(0, at=10)
    run.exits(1, at=10)


@scenario(
    "elastic",
    path=f"{START}, reform REFORMING, reformed JOINING, joined STARTING, started HEALTHY, "
    "told_to_stop STOPPING, stopped STOPPED",
    end="STOPPED 143",
)
def workers_that_the_agent_stops_may_end_with_0_and_are_not_done(run):
    run.launcher.on_stop = {rank: OnStop(takes=1, exit_code=0) for rank in (0, 1)}
    run.post("membership_changed", at=10)
    run.signal("SIGTERM", at=20)


@scenario("fail_fast", path=f"{START}, node_lost UNHEALTHY, give_up FAILED", end="FAILED 1")
def a_node_is_lost(run):
    run.post("membership_changed", at=10)


# -- failures ----------------------------------------------------------------------------------


@scenario(
    "elastic",
    path=f"{START}, worker_lost UNHEALTHY, restart BACKOFF, {AGAIN}, "
    f"worker_lost UNHEALTHY, restart BACKOFF, {AGAIN}, worker_lost UNHEALTHY, give_up FAILED",
    end="FAILED 3",
    max_restarts=2,
)
def the_budget_is_spent_to_the_last(run):
    for when in (10, 20, 30):
        run.exits(0, code=3, at=when)


@scenario(
    "fail_fast",
    path=f"{START}, worker_lost UNHEALTHY, give_up FAILED",
    end="FAILED 3",
    max_restarts=2,
)
def there_is_no_restart_whatever_the_budget(run):
    run.exits(0, code=3, at=10)


@scenario(*BOTH, path=f"{START}, worker_lost UNHEALTHY, give_up FAILED", end="FAILED 137")
def a_worker_is_killed(run):
    run.exits(1, code=-9, at=10)


@scenario(*BOTH, path=f"{START}, worker_lost UNHEALTHY, give_up FAILED", end="FAILED 5")
def the_exit_code_is_that_of_the_first_cause(run):
    run.exits(1, code=5, at=10)
    run.exits(0, code=6, at=10)


@scenario(
    *BOTH,
    path="begin JOINING, joined STARTING, worker_lost UNHEALTHY, give_up FAILED",
    end="FAILED 127",
)
def a_worker_cannot_be_started(run):
    run.launcher.cannot_start[1] = "cannot be started: No such file or directory: worker"


@scenario(
    *BOTH,
    path="begin JOINING, joined STARTING, start_stuck UNHEALTHY, give_up FAILED",
    end="FAILED 1",
)
def starting_takes_for_ever(run):
    run.launcher.start_takes = None


@scenario(
    *BOTH,
    path=f"{START}, worker_lost UNHEALTHY, unkillable UNKNOWN",
    end="UNKNOWN 70",
    max_restarts=3,
)
def a_worker_survives_even_sigkill(run):
    run.launcher.on_stop[1] = OnStop(survives_kill=True)
    run.exits(0, code=1, at=10)


# -- stops -------------------------------------------------------------------------------------


@scenario(*BOTH, path=f"{START}, told_to_stop STOPPING, stopped STOPPED", end="STOPPED 130")
def told_to_stop_while_workers_run(run):
    run.signal("SIGINT", at=10)


@scenario(*BOTH, path=f"{START}, told_to_stop STOPPING, stopped STOPPED", end="STOPPED 143")
def workers_may_save_their_work_and_those_that_do_not_listen_are_killed(run):
    run.launcher.on_stop = {0: OnStop(takes=20, exit_code=0), 1: IGNORES_SIGNALS}
    run.signal("SIGTERM", at=10)


@scenario(*BOTH, path="begin JOINING, told_to_stop STOPPING, stopped STOPPED", end="STOPPED 129")
def told_to_stop_while_nodes_are_missing(run):
    run.rendezvous.answering = False
    run.signal("SIGHUP", at=10)


@scenario(
    *BOTH,
    path=f"{START}, told_to_stop STOPPING, hurry STOPPING, stopped STOPPED",
    end="STOPPED 130",
)
def told_twice(run):
    run.launcher.on_stop = {0: IGNORES_SIGNALS, 1: IGNORES_SIGNALS}
    run.signal("SIGINT", at=10)
    run.signal("SIGINT", at=10.5)


@scenario(
    *BOTH,
    path=f"{START}, told_to_stop STOPPING, same_signal STOPPING, same_signal STOPPING, "
    "stopped STOPPED",
    end="STOPPED 143",
)
def the_same_stop_comes_by_two_ways(run):
    run.launcher.on_stop[1] = OnStop(takes=5)
    run.signal("SIGTERM", at=10)
    run.signal("SIGHUP", at=10.05)
    run.signal("SIGUSR2", at=11)


@scenario(
    *BOTH,
    path=f"{START}, other_signal HEALTHY, worker_done HEALTHY, all_done SETTLING, "
    "settled SUCCEEDED",
    end="SUCCEEDED 0",
)
def a_signal_that_means_nothing(run):
    run.signal("SIGUSR1", at=10)
    run.exits(0, at=20)
    run.exits(1, at=20)


# -- is it a failure, or a stop? ---------------------------------------------------------------


@scenario(
    *BOTH,
    path=f"{START}, worker_lost UNHEALTHY, suspect DOUBTING, told_to_stop STOPPING, "
    "stopped STOPPED",
    end="STOPPED 143",
    max_restarts=3,
)
def the_job_is_stopped_and_a_worker_hears_of_it_first(run):
    run.exits(1, code=-15, at=10)
    run.signal("SIGTERM", at=10.05)


@scenario(*BOTH, path=f"{START}, told_to_stop STOPPING, stopped STOPPED", end="STOPPED 143")
def the_job_is_stopped_and_the_agent_hears_of_it_first(run):
    run.launcher.on_stop = {0: OnStop(takes=1), 1: OnStop(takes=1)}
    run.signal("SIGTERM", at=10)
    run.exits(1, code=-15, at=10.05)


@scenario(
    *BOTH,
    path=f"{START}, worker_lost UNHEALTHY, told_to_stop STOPPING, stopped STOPPED",
    end="STOPPED 143",
    max_restarts=3,
)
def the_job_is_stopped_and_another_worker_takes_its_time(run):
    run.launcher.on_stop[0] = OnStop(takes=3)
    run.exits(1, code=143, at=10)
    run.signal("SIGTERM", at=10.05)


@scenario(
    "elastic",
    path=f"{START}, worker_lost UNHEALTHY, suspect DOUBTING, doubt_restart BACKOFF, {AGAIN}, "
    "told_to_stop STOPPING, stopped STOPPED",
    end="STOPPED 143",
    max_restarts=3,
)
def somebody_sends_sigterm_to_one_worker_only(run):
    run.exits(1, code=-15, at=10)
    run.signal("SIGTERM", at=10.2)


@scenario(
    *BOTH,
    path=f"{START}, worker_lost UNHEALTHY, suspect DOUBTING, doubt_give_up FAILED",
    end="FAILED 143",
)
def somebody_sends_sigterm_to_one_worker_and_the_budget_is_spent(run):
    run.exits(1, code=-15, at=10)


# -- errors of the agent's own -----------------------------------------------------------------


@scenario(
    *BOTH,
    path="begin JOINING, joined STARTING, broken ABORTING, aborted UNKNOWN",
    end="UNKNOWN 70",
    machine={"states": {"STARTING": {"on_enter": ["start_workers", "explode"]}}},
)
def an_action_raises(run):
    pass


@scenario(
    *BOTH,
    path="begin JOINING, broken ABORTING, lost_control UNKNOWN",
    end="UNKNOWN 70",
    machine={
        "states": {
            "JOINING": {"on_enter": ["explode"]},
            "ABORTING": {"on_enter": ["explode", "stop_workers"]},
        }
    },
)
def even_stopping_fails(run):
    pass


@scenario(
    *BOTH,
    path="begin JOINING, joined STARTING, broken ABORTING, unkillable UNKNOWN",
    end="UNKNOWN 70",
    machine={"states": {"STARTING": {"on_enter": ["start_workers", "explode"]}}},
)
def an_action_raises_and_a_worker_cannot_be_killed(run):
    run.launcher.on_stop[0] = OnStop(survives_kill=True)


@scenario(
    *BOTH,
    path="begin JOINING, joined STARTING, broken ABORTING, hurry ABORTING, aborted UNKNOWN",
    end="UNKNOWN 70",
    machine={"states": {"STARTING": {"on_enter": ["start_workers", "explode"]}}},
)
def told_to_stop_while_aborting(run):
    run.launcher.on_stop[0] = IGNORES_SIGNALS
    run.signal("SIGTERM", at=3)

"""A SimpleElasticAgent on the coarse machine: what is called when, and what becomes of it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress

import pytest
from scripted_agents import DONE, HEALTHY, Handler, Scripted, failed

from elastic_fsm.failures import SignalException
from elastic_fsm.group import RunResult, WorkerGroup, WorkerState
from elastic_fsm.hindsight.explain import story_of
from elastic_fsm.problems import BadInput
from elastic_fsm.rendezvous.errors import RendezvousGracefulExitError

FIRST = ["next_rendezvous", "_start_workers", "_monitor_workers"]
AGAIN = ["_stop_workers", "next_rendezvous", "_start_workers", "_monitor_workers"]


def test_workers_that_are_done(simple, journal):
    agent = simple([HEALTHY, DONE])
    result = agent.run()
    assert result.state is WorkerState.SUCCEEDED
    assert result.return_values == {0: None, 1: None}
    assert agent.trace == [*FIRST, "_monitor_workers", "_shutdown(SIGTERM)"]
    assert journal().path == [
        ("begin", "INITIALIZING"),
        ("initialized", "HEALTHY"),
        ("all_done", "SETTLING"),
        ("settled", "SUCCEEDED"),
    ]
    group = agent.get_worker_group()
    assert [w.global_rank for w in group.workers] == [0, 1]
    assert [w.id for w in group.workers] == [100, 101]
    assert group.state is WorkerState.SUCCEEDED


def test_a_change_is_logged_before_the_method_that_may_block(simple, caplog):
    caplog.set_level(logging.INFO, "elastic_fsm")
    said = []

    class Patient(Scripted):
        def _rendezvous(self, worker_group):
            said.extend(caplog.messages)
            super()._rendezvous(worker_group)

    simple([DONE], kind=Patient).run()
    assert said == ["INIT -> INITIALIZING [begin] the run begins"]
    assert [line for line in caplog.messages if "->" in line] == [
        *said,
        "INITIALIZING -> HEALTHY [initialized] 2 workers started",
        "HEALTHY -> SETTLING [all_done] all workers are done",
        "SETTLING -> SUCCEEDED [settled] all nodes are done",
    ]


@pytest.mark.parametrize("state", [WorkerState.FAILED, WorkerState.UNHEALTHY])
def test_a_failure_within_the_budget_restarts_the_group(simple, journal, state):
    agent = simple([failed(state=state), DONE], max_restarts=1)
    assert agent.run().state is WorkerState.SUCCEEDED
    assert agent.trace == [*FIRST, *AGAIN, "_shutdown(SIGTERM)"]
    assert agent._remaining_restarts == 0
    assert ("restart", "RESTARTING") in journal().path


def test_its_failures_are_told_as_such(simple, tmp_path):
    simple([failed(), HEALTHY, DONE], max_restarts=1).run()
    story = story_of(next(tmp_path.glob("latest/*/journal.jsonl")))
    assert [c.kind for c in story.chapters] == ["start", "failure", "work done"]
    assert [(c.kind, c.restarts_used) for c in story.costs] == [("failure", 1)]


def test_who_failed_is_not_alive_and_its_last_words_are_told(simple, tmp_path):
    crash = failed(rank=1, code=3)
    crash.failures[1].stderr_tail = ["one", "out of luck"]
    simple([crash, HEALTHY, DONE], max_restarts=1).run()
    story = story_of(next(tmp_path.glob("latest/*/journal.jsonl")))
    failure = story.chapters[1]
    assert failure.first.known.startswith("alive: local rank 0; ended: 1 with 3;")
    assert [(e.rank, e.ended, e.lines) for e in failure.evidence] == [
        (1, "exited with 3", ("one", "out of luck"))
    ]
    lives = [(w.attempt, w.local_rank, w.exit_code) for w in story.workers]
    assert lives == [(0, 0, None), (0, 1, 3), (1, 0, None), (1, 1, None)]
    assert all(worker.end is not None for worker in story.workers)


@pytest.mark.parametrize("state", [WorkerState.FAILED, WorkerState.UNHEALTHY])
def test_a_failure_without_a_budget_is_a_failure(simple, journal, state):
    """Also of a group that a subclass calls UNHEALTHY, which torch would take for a success."""
    agent = simple([failed(rank=1, code=3, state=state)], max_restarts=0)
    result = agent.run()
    assert result.is_failed()
    assert result.failures[1].exitcode == 3
    assert result.exit_code == 3
    assert agent.trace == [*FIRST, "_stop_workers", "_shutdown(SIGTERM)"]
    assert journal().path[-1] == ("given_up", "FAILED")


def test_nodes_that_wait_form_the_group_anew_at_no_cost(simple, journal):
    agent = simple([HEALTHY, HEALTHY, DONE], waiting=[0, 1], max_restarts=0)
    assert agent.run().state is WorkerState.SUCCEEDED
    assert agent.trace == [*FIRST, "_monitor_workers", *AGAIN, "_shutdown(SIGTERM)"]
    assert ("reform", "RESTARTING") in journal().path
    assert agent._remaining_restarts == 0


def test_a_subclass_may_write_what_remains_of_the_budget(simple):
    class Generous(Scripted):
        def _restart_workers(self, worker_group):
            self._remaining_restarts += 1
            super()._restart_workers(worker_group)

    agent = simple([failed(), failed(), failed(), DONE], kind=Generous, max_restarts=1)
    assert agent.run().state is WorkerState.SUCCEEDED
    assert agent._remaining_restarts == 1


def test_the_machine_is_what_the_overrides_say(simple, journal):
    overrides = ["~machine.transitions.restart"]
    agent = simple([failed()], max_restarts=5, overrides=overrides)
    assert agent.run().is_failed()
    assert ("give_up", "GIVING_UP") in journal().path


def test_a_machine_that_cannot_work_is_refused_before_anything_starts(simple):
    agent = simple([DONE], overrides=["machine.states.HEALTHY.on_enter=[begin_monitorin]"])
    with pytest.raises(BadInput, match="did you mean 'begin_monitoring'"):
        agent.run()
    assert agent.trace == []


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    ["_start_workers", "_stop_workers", "_monitor_workers", "_rendezvous", "_exit_barrier"],
)
def test_what_a_method_raises_reaches_the_caller_and_nothing_is_left(simple, journal, method):
    def fail(*_):
        raise LookupError("lost")

    kind = type("Failing", (Scripted,), {method: fail})
    agent = simple([failed(), DONE], kind=kind, max_restarts=1)
    with pytest.raises(LookupError, match="lost"):
        agent.run()
    assert agent.trace[-1] == "_shutdown(SIGTERM)"
    assert journal().path[-2:] == [("broken", "ABORTING"), ("aborted", "UNKNOWN")]
    assert agent.get_worker_group().state is WorkerState.UNKNOWN


def test_a_state_that_says_nothing_is_an_error(simple):
    agent = simple([RunResult(WorkerState.INIT)])
    with pytest.raises(RuntimeError, match="the worker group is in the state INIT"):
        agent.run()


def test_a_spare_that_is_not_needed_ends_with_an_empty_success(simple, journal):
    class Full(Handler):
        def next_rendezvous(self):
            raise RendezvousGracefulExitError("not needed")

    agent = simple([], rdzv_handler=Full())
    result = agent.run()
    assert result == RunResult(WorkerState.SUCCEEDED)
    assert journal().path[-1] == ("not_needed", "SUCCEEDED")


# -- signals -------------------------------------------------------------------------------------


def _kill_self(number):
    def look():
        os.kill(os.getpid(), number)
        return HEALTHY

    return look


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_stop_signal_shuts_down_and_leaves_as_an_exception(simple, journal, name):
    number = signal.Signals[name]
    before = signal.getsignal(number)
    agent = simple([_kill_self(number)])
    with pytest.raises(SignalException) as told:
        agent.run()
    assert told.value.sigval is number
    assert agent.trace[: len(FIRST)] == FIRST
    assert agent.trace[len(FIRST)] == f"_shutdown({name})"
    assert journal().path[-2:] == [("told_to_stop", "STOPPING"), ("stopped", "STOPPED")]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("method", ["_start_workers", "_rendezvous", "_stop_workers"])
def test_a_stop_signal_ends_a_method_that_blocks(simple, journal, method):
    def block(self, *_):
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait()  # for ever, were it not for the signal

    kind = type("Blocking", (Scripted,), {method: block})
    agent = simple([failed()], kind=kind, max_restarts=1)
    with pytest.raises(SignalException):
        agent.run()
    assert journal().path[-1] == ("stopped", "STOPPED")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize(
    "method",
    ["_rendezvous", "_start_workers", "_monitor_workers", "_stop_workers", "_exit_barrier"],
)
def test_a_signal_exception_that_a_method_raises_by_itself(simple, journal, method, number):
    """No signal has come that would be an event: it is an error, but names the death signal."""
    mine = SignalException("mine", number)

    def raise_mine(self, *_):
        raise mine

    kind = type("Raising", (Scripted,), {method: raise_mine})
    looks = [failed()] if method == "_stop_workers" else [DONE]
    agent = simple(looks, kind=kind, max_restarts=1)
    with pytest.raises(SignalException) as raised:
        agent.run()
    assert raised.value is mine
    told = [word for word in agent.trace if word.startswith("_shutdown")]
    assert told[0] == f"_shutdown({number.name})"
    assert journal().path[-1][1] == "UNKNOWN"


def test_a_signal_may_be_a_number_and_not_every_sigval_is_one(simple):
    class Odd(Scripted):
        def _monitor_workers(self, worker_group):
            raise self.looks.pop()

    odd = LookupError("odd")
    odd.sigval = "nothing"
    for error in (SignalException("mine", 15), odd):
        agent = simple([error], kind=Odd)
        with pytest.raises(type(error)) as raised:
            agent.run()
        assert raised.value is error
        assert "_shutdown(SIGTERM)" in agent.trace


def test_a_handler_of_a_subclass_that_raises(simple):
    """As for a warning that a scheduler sends."""

    class Warned(Scripted):
        def _start_workers(self, worker_group):
            def tell(number, _):
                raise SignalException("preempted", signal.Signals(number))

            signal.signal(signal.SIGUSR1, tell)
            return super()._start_workers(worker_group)

    before = signal.getsignal(signal.SIGUSR1)
    agent = simple([_kill_self(signal.SIGUSR1)], kind=Warned)
    with pytest.raises(SignalException, match="preempted"):
        agent.run()
    signal.signal(signal.SIGUSR1, before)
    assert agent.trace[len(FIRST)] == "_shutdown(SIGUSR1)"


def test_a_look_that_finds_nothing_at_all(simple):
    with pytest.raises(TypeError, match="_monitor_workers must return a RunResult, not None"):
        simple([None]).run()


def test_a_stop_signal_ends_a_rendezvous_that_blocks(simple):
    class Alone(Handler):
        def next_rendezvous(self):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()

    with pytest.raises(SignalException):
        simple([], rdzv_handler=Alone()).run()


def test_a_second_stop_signal_cuts_the_shutdown_short(simple, journal):
    class Slow(Scripted):
        def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
            super()._shutdown(death_sig, timeout)
            if death_sig == signal.SIGTERM and timeout and "_shutdown(SIGKILL)" not in self.trace:
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Event().wait()

    agent = simple([_kill_self(signal.SIGTERM)], kind=Slow)
    with pytest.raises(SignalException):
        agent.run()
    assert "_shutdown(SIGKILL)" in agent.trace
    assert ("hurry", "STOPPING") in journal().path


def test_an_ignored_signal_stays_ignored(simple):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        agent = simple([_kill_self(signal.SIGHUP), DONE])
        assert agent.run().state is WorkerState.SUCCEEDED
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_runs_in_another_thread_than_the_main_one(simple):
    results = []
    agent = simple([DONE])
    thread = threading.Thread(target=lambda: results.append(agent.run()))
    thread.start()
    thread.join()
    assert results[0].state is WorkerState.SUCCEEDED


# -- loops of a subclass's own -------------------------------------------------------------------


def test_a_subclass_may_bring_its_own_loop(simple, journal):
    class Own(Scripted):
        def _invoke_run(self, role="default"):
            self._initialize_workers(self._worker_group)
            self._worker_group.state = WorkerState.SUCCEEDED
            return DONE

    agent = simple([], kind=Own)
    assert agent.run() is DONE
    assert agent.trace == ["next_rendezvous", "_start_workers", "_shutdown(SIGTERM)"]


def test_a_loop_of_a_subclass_gets_signals_too(simple):
    class Own(Scripted):
        def _invoke_run(self, role="default"):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()

    agent = simple([], kind=Own)
    with pytest.raises(SignalException):
        agent.run()
    assert agent.trace == ["_shutdown(SIGTERM)", "_shutdown(SIGTERM)"]


# -- what is overridden, is called ---------------------------------------------------------------

# Each member with what it replaces and the trace it then leaves, of a run in which the group is
# restarted once and then succeeds.
REPLACED = {
    "_invoke_run": (lambda self, role: DONE, ["X", "_shutdown(SIGTERM)"]),
    "_initialize_workers": (
        lambda self, group: None,
        ["X", "_monitor_workers", "_stop_workers", "X", "_monitor_workers", "_shutdown(SIGTERM)"],
    ),
    "_restart_workers": (
        lambda self, group: None,
        [*FIRST, "X", "_monitor_workers", "_shutdown(SIGTERM)"],
    ),
    "_rendezvous": (
        lambda self, group: None,
        [
            *["X", "_start_workers", "_monitor_workers"],
            *["_stop_workers", "X", "_start_workers", "_monitor_workers", "_shutdown(SIGTERM)"],
        ],
    ),
    "_assign_worker_ranks": (
        lambda self, store, rank, size, spec: WorkerGroup(spec).workers,
        [
            *["next_rendezvous", "X", "_start_workers", "_monitor_workers", "_stop_workers"],
            *["next_rendezvous", "X", "_start_workers", "_monitor_workers", "_shutdown(SIGTERM)"],
        ],
    ),
    "_exit_barrier": (lambda self: None, [*FIRST, *AGAIN, "X", "_shutdown(SIGTERM)"]),
    "_record_worker_events": (
        lambda self, result: None,
        [*FIRST, *AGAIN, "X", "_shutdown(SIGTERM)"],
    ),
    "_get_worker_state": (
        lambda self, worker, result: "MINE",
        [*FIRST, *AGAIN, "X", "X", "_shutdown(SIGTERM)"],
    ),
    "_record_metrics": (lambda self, result: None, [*FIRST, *AGAIN, "X", "_shutdown(SIGTERM)"]),
    "_record_flakiness_metric": (
        lambda self, failed: None,
        [*FIRST, *AGAIN, "X", "_shutdown(SIGTERM)"],
    ),
    "_record_metric_with_condition": (
        lambda self, name, condition: None,
        [*FIRST, *AGAIN, *"XXXX", "_shutdown(SIGTERM)"],
    ),
}


@pytest.mark.parametrize("member", REPLACED)
def test_overriding_one_member_takes_effect_where_it_is_called(simple, member):
    replacement, expected = REPLACED[member]

    def replaced(self, *arguments):
        self.trace.append("X")
        return replacement(self, *arguments)

    kind = type("Mine", (Scripted,), {member: replaced})
    agent = simple([failed(), DONE], kind=kind, max_restarts=1)
    assert agent.run().state is WorkerState.SUCCEEDED
    assert agent.trace == expected


class _CannotShutDown(Scripted):
    """Raises in the shutdown that its machine asks for, not in the one at the end of ``run``."""

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        super()._shutdown(death_sig, timeout)
        if self.trace.count("_shutdown(SIGTERM)") == 1:
            raise OSError("stuck")


class _Hurried(Scripted):
    """Told to stop again while it shuts down."""

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        super()._shutdown(death_sig, timeout)
        if self.trace[-1] == "_shutdown(SIGTERM)" and "_shutdown(SIGKILL)" not in self.trace:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()


class _Full(Handler):
    def next_rendezvous(self):
        raise RendezvousGracefulExitError("not needed")


def test_every_transition_of_the_machine_is_taken_by_a_run(simple, journal):
    """The looks and options of some runs, which together go every way there is."""
    listens = "+machine.transitions.usr={trigger: signal_received, source: [INIT], " + (
        "dest: INITIALIZING, conditions: [{signal_in: [SIGUSR1]}]}"
    )
    runs = [
        simple([failed(), HEALTHY, DONE], waiting=[1], max_restarts=1),
        simple([failed()], max_restarts=0),
        simple([], rdzv_handler=_Full()),
        simple([_kill_self(signal.SIGTERM)], kind=_Hurried),
        simple([RunResult(WorkerState.INIT)]),
        simple([RunResult(WorkerState.INIT)], kind=_CannotShutDown),
        simple([_kill_self(signal.SIGUSR1), DONE], overrides=[listens]),
    ]
    taken = set()
    for agent in runs:
        with suppress(SignalException, RuntimeError, OSError):
            agent.run()
        taken |= {transition for transition, _ in journal().path}
    declared = set(simple([])._setup.machine().spec.transitions)
    assert declared - taken == {"overran"}  # that needs timers: test_timer_runs.py

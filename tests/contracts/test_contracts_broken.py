"""Each check of the contracts is seen to fail, by something that breaks just that."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest
from contract_subjects import (
    ActingLauncher,
    AmongOthers,
    InMemory,
    Scripted,
    ScriptedAlone,
    Subprocesses,
    checks,
    run_check,
)

from elastic_fsm.events import Event
from elastic_fsm.launchers.base import LaunchPlan
from elastic_fsm.launchers.local import SubprocessLauncher
from elastic_fsm.rendezvous.memory import Memory, MemoryStore, _Lease, _Watch
from elastic_fsm.rendezvous.store import Snapshot, Swap
from elastic_fsm.testing import ScriptedRendezvous
from elastic_fsm.testing.contracts import LauncherContract

BROKEN = []


def breaks(*names):
    """Marks an implementation with the checks that must find it."""

    def mark(made):
        BROKEN.extend((made, name) for name in names)
        return made

    return mark


# -- launchers -------------------------------------------------------------------------------------


class Posting(ActingLauncher):
    """Lets a subclass change the events that are posted."""

    def _post(self, name, **data):
        for event in self.changed(Event(name, data, attempt=self._attempt)):
            self._loop.post(event)


@breaks("test_pids_are_told_in_the_order_of_the_plan")
class PidsInAnotherOrder(Posting):
    def changed(self, event):
        pids = event.data.get("pids")
        yield replace(event, data={"pids": pids[::-1]}) if pids else event


@breaks("test_each_end_is_told_once_with_its_code")
class EndsTwice(Posting):
    def changed(self, event):
        yield from [event] * (1 + (event.name == "worker_exited"))


@breaks("test_each_end_is_told_once_with_its_code", "test_the_grace_ends_with_sigkill")
class CodesOfAShell(Posting):
    def changed(self, event):
        code = event.data.get("exit_code", 0)
        yield replace(event, data={**event.data, "exit_code": 128 - code}) if code < 0 else event


@breaks("test_a_stop_has_one_answer_when_all_have_ended")
class AnswersTwice(Posting):
    def changed(self, event):
        yield from [event] * (1 + (event.name == "workers_stopped"))


@breaks("test_a_stop_has_one_answer_when_all_have_ended")
class AnswersBeforeTheEnds(ActingLauncher):
    def stop(self, attempt, signal, grace):
        self._post("workers_stopped")
        super().stop(attempt, signal, grace)


@breaks("test_answers_carry_their_attempt")
class NoAttempts(Posting):
    def changed(self, event):
        yield replace(event, attempt=None)


@breaks("test_a_stop_when_nobody_is_alive_is_answered")
class SilentWhenNobodyIsAlive(ActingLauncher):
    def stop(self, attempt, signal, grace):
        if self.alive:
            super().stop(attempt, signal, grace)


@breaks("test_a_second_stop_joins_the_first")
class SecondStopKills(ActingLauncher):
    def stop(self, attempt, signal, grace):
        if self._stopping:
            self.kill()
        super().stop(attempt, signal, grace)


class StopBlocks(ActingLauncher):
    def stop(self, attempt, signal, grace):
        threading.Event().wait()


class StopBlocksAndLearnsNothing(ActingLauncher):
    def stop(self, attempt, signal, grace):
        with suppress(Exception):
            threading.Event().wait()
        super().stop(attempt, signal, grace)


@pytest.mark.parametrize("launcher", [StopBlocks, StopBlocksAndLearnsNothing])
def test_a_stop_that_blocks_fails_the_check_and_does_not_hang_it(launcher):
    class Suite(Scripted):
        launcher_class = launcher
        promptness = 0.02

    with pytest.raises(AssertionError, match=r"stop must not block, and had not returned after"):
        run_check(Suite, "test_the_signal_is_the_one_that_was_asked_for")


class CloseTakesTime(ActingLauncher):
    def close(self):
        threading.Event().wait(0.1)
        return super().close()


def test_closing_may_take_longer_than_asking_but_not_for_ever():
    class Suite(Scripted):
        launcher_class = CloseTakesTime
        promptness = 0.05

    run_check(Suite, "test_the_signal_is_the_one_that_was_asked_for")
    Suite.closing = 0.02
    with pytest.raises(AssertionError, match=r"close must not block, and had not returned after"):
        run_check(Suite, "test_the_signal_is_the_one_that_was_asked_for")


def test_an_alarm_at_the_last_moment_leaves_no_handler_behind(monkeypatch):
    before, really = signal.getsignal(signal.SIGALRM), signal.setitimer

    def setitimer(which, seconds, interval=0.0):
        really(which, seconds, interval)
        if not seconds:
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(signal, "setitimer", setitimer)
    with pytest.raises(AssertionError, match="must not block"):
        run_check(Scripted, "test_the_signal_is_the_one_that_was_asked_for")
    monkeypatch.undo()
    left = signal.signal(signal.SIGALRM, before)
    assert left is before


def test_somebody_elses_alarm_goes_on():
    """As that of a plug-in of pytest, which limits the whole check."""
    before = signal.signal(signal.SIGALRM, theirs := lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        run_check(Scripted, "test_the_signal_is_the_one_that_was_asked_for")
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        assert signal.getsignal(signal.SIGALRM) is theirs
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@breaks("test_the_signal_is_the_one_that_was_asked_for")
class AlwaysSigterm(ActingLauncher):
    def stop(self, attempt, signal, grace):
        super().stop(attempt, "SIGTERM", grace)


@breaks("test_the_grace_ends_with_sigkill")
class WaitsForEver(ActingLauncher):
    def stop(self, attempt, signal, grace):
        super().stop(attempt, signal, None)


@breaks("test_kill_cuts_the_grace_short")
class CannotKill(ActingLauncher):
    def kill(self):
        pass


@breaks("test_kill_without_a_stop_does_nothing")
class AlwaysKills(ActingLauncher):
    def kill(self):
        for rank in self.alive:
            self.exits(rank, -9)


@breaks("test_a_signal_is_passed_on_and_nobody_is_stopped")
class SignalsEverybody(ActingLauncher):
    def signal(self, signal, local_rank=None, *, why=""):
        return super().signal(signal, why=why)


@breaks("test_a_signal_is_passed_on_and_nobody_is_stopped")
class SignalsAreStops(ActingLauncher):
    def signal(self, signal, local_rank=None, *, why=""):
        self._stopped = frozenset(self.alive)
        return super().signal(signal, local_rank, why=why)


@breaks("test_a_worker_that_a_signal_ends_has_the_reason_that_came_with_it")
class ForgetsWhy(ActingLauncher):
    def signal(self, signal, local_rank=None, *, why=""):
        return super().signal(signal, local_rank)


@breaks("test_a_worker_that_cannot_be_started_has_ended_with_a_reason")
class RaisesWhenItCannotStart(ActingLauncher):
    def start(self, plan):
        super().start(plan)
        if len(self.alive) < len(plan.workers):
            raise FileNotFoundError("no such program")


@breaks("test_a_worker_that_cannot_be_started_has_ended_with_a_reason")
class GivesNoReason(ActingLauncher):
    def _post_exit(self, local_rank, pid, code, *, stopped=False, reason=""):
        super()._post_exit(local_rank, pid, code, stopped=stopped)


@breaks("test_a_worker_that_cannot_be_started_has_ended_with_a_reason")
class StartsTheRest(ActingLauncher):
    def start(self, plan):
        super().start(plan)
        if len(self.alive) < len(plan.workers):
            super().start(LaunchPlan(plan.attempt, plan.workers[2:]))


@breaks("test_the_next_attempt_is_another_one")
class TellsTheLastAttemptAgain(ActingLauncher):
    def start(self, plan):
        super().start(plan)
        if plan.attempt:
            self._loop.call_later(1, lambda: self._post_exit(0, 1001, 0))


@breaks("test_closing_leaves_nothing")
class LeavesWorkersBehind(ActingLauncher):
    def close(self):
        self._cancel_timers()
        return []


@breaks("test_closing_again_does_nothing")
class ClosesOnce(ActingLauncher):
    def close(self):
        if ("close",) in self.calls:
            raise RuntimeError("closed already")
        return super().close()


# -- launchers of processes ------------------------------------------------------------------------


class Starting(SubprocessLauncher):
    """Lets a subclass change how a worker is started."""

    def __init__(self, loop, exits):
        super().__init__(loop, exits)
        self.real = subprocess.Popen

    def _start_one(self, worker):
        patch = pytest.MonkeyPatch()
        patch.setattr(subprocess, "Popen", self.popen)
        try:
            super()._start_one(self.changed(worker))
        finally:
            patch.undo()

    def changed(self, worker):
        return worker

    def popen(self, argv, **options):
        return self.real(argv, **options)


@breaks("test_words_are_passed_on_as_they_are")
class ByAShell(Starting):
    def changed(self, worker):
        return replace(worker, argv=("sh", "-c", " ".join(worker.argv)))


@breaks("test_the_environment_is_that_of_the_plan_over_the_agents")
class OnlyThePlansEnvironment(Starting):
    def popen(self, argv, env, **options):
        return self.real(argv, env={k: v for k, v in env.items() if k != "HOME"}, **options)


@breaks("test_the_environment_is_that_of_the_plan_over_the_agents")
class MoreInTheEnvironment(Starting):
    def popen(self, argv, env, **options):
        return self.real(argv, env={**env, "SOMETHING": "1"}, **options)


@breaks("test_the_folder_is_that_of_the_plan")
class InTheAgentsFolder(Starting):
    def changed(self, worker):
        return replace(worker, cwd=None)


@breaks("test_a_worker_reads_nothing")
class WithSomethingToRead(Starting):
    def popen(self, argv, **options):
        read, write = os.pipe()
        os.write(write, b"hello")
        os.close(write)
        process = self.real(argv, **{**options, "stdin": read})
        os.close(read)
        return process


@breaks("test_output_is_added_to_the_files_of_the_plan")
class Truncates(Starting):
    def changed(self, worker):
        if worker.stdout:
            worker.stdout.write_text("")
        return worker


@breaks("test_each_worker_has_a_session_of_its_own")
class InGroupsOnly(Starting):
    def popen(self, argv, **options):
        return self.real(argv, **{**options, "start_new_session": False, "process_group": 0})


# The shell goes on when its child has left the session that the stop is for.
AWAIT_SESSION = 'while [ "$(cut -d " " -f 6 /proc/$!/stat)" = $$ ]; do :; done'


@breaks(
    "test_a_stop_reaches_what_the_workers_started", "test_a_stop_reaches_what_a_worker_left_behind"
)
class LeavesChildrenBehind(Starting):
    """As if children were in sessions of their own, and nobody looked for them."""

    def __init__(self, loop, exits):
        super().__init__(loop, exits)
        self._strays.find = lambda known, leaders: []

    def changed(self, worker):
        *shell, script = worker.argv
        in_own_session = f"setsid sleep 600 & {AWAIT_SESSION};"
        return replace(worker, argv=(*shell, script.replace("sleep 600 &", in_own_session)))


# -- rendezvous ------------------------------------------------------------------------------------


@breaks("test_joining_is_answered_once")
class Repeats(ScriptedRendezvous):
    def answer(self, name, **data):
        super().answer(name, **data)
        super().answer(name, **data)


@breaks("test_a_failure_has_a_reason")
class FailsWithoutAReason(ScriptedRendezvous):
    def complete(self):
        self.answer("rendezvous_failed", reason="")


class Telling(AmongOthers):
    """Lets a subclass change the world that is told."""

    def answer(self, name, **data):
        super().answer(name, **(self.changed(data["world"]) if data else {}))


@breaks("test_an_answer_can_be_journalled")
class TellsObjects(Telling):
    def changed(self, world):
        return {"world": {**world, "extra": object()}}


@breaks("test_this_node_has_its_place_in_the_world")
class WrongPlace(Telling):
    def changed(self, world):
        return {"world": {**world, "node_rank": 0}}


@breaks("test_this_node_has_its_place_in_the_world")
class TwiceInTheWorld(Telling):
    def changed(self, world):
        return {"world": {**world, "nodes": [*world["nodes"], world["nodes"][1]]}}


@breaks("test_ranks_are_contiguous")
class NegativeRank(Telling):
    def changed(self, world):
        return {"world": {**world, "node_rank": -2}}


@breaks("test_workers_know_where_they_meet")
class NoPort(Telling):
    def changed(self, world):
        return {"world": {**world, "master_port": 0}}


@breaks("test_each_round_has_a_new_number")
class OneRoundForEver(Telling):
    def changed(self, world):
        return {"world": {**world, "round": 0}}


@breaks("test_answers_carry_their_attempt")
class ForgetsTheAttempt(ScriptedRendezvous):
    def join(self, node, attempt):
        super().join(node, 0)


@breaks("test_a_newer_question_makes_the_older_stale")
class AnswersTheOlderAsTheNewer(ScriptedRendezvous):
    def join(self, node, attempt):
        self._loop.call_soon(lambda: super(type(self), self).join(node, max(attempt, 2)))


@breaks("test_the_barrier_is_passed_once")
class NoBarrier(ScriptedRendezvous):
    def barrier(self, attempt):
        pass


@breaks("test_leaving_is_not_answered_and_may_be_repeated")
class LeavingIsAnswered(ScriptedRendezvous):
    def leave(self):
        self.answer("run_finished")


@breaks("test_closing_is_not_answered_and_may_be_repeated")
class ClosingIsAnswered(ScriptedRendezvous):
    def close(self):
        self.answer("run_finished")


@breaks("test_a_rendezvous_that_nobody_joined_can_be_closed")
class CannotCloseBeforeJoining(ScriptedRendezvous):
    def close(self):
        if self._node is None:
            raise RuntimeError("nobody has joined")


# -- stores ----------------------------------------------------------------------------------------


@breaks("test_a_store_begins_empty")
class NotEmpty(Memory):
    def __init__(self, loop):
        super().__init__(loop)
        self.write({"/of-somebody-else": "x"})


@breaks("test_what_was_written_is_read_by_all")
class EachForItself(MemoryStore):
    def __init__(self, memory):
        super().__init__(Memory(memory.loop))


@breaks("test_a_prefix_is_read_in_the_order_of_its_keys")
class AsWritten(Memory):
    def below(self, prefix):
        return tuple(entry for key, entry in self.entries.items() if key.startswith(prefix))


@breaks("test_every_change_has_a_higher_revision")
class CreatedAlways(Memory):
    def _write(self, key, value, lease):
        self.entries.pop(key, None)
        return super()._write(key, value, lease)


@breaks(
    "test_only_who_knows_the_last_revision_may_write",
    "test_the_first_writer_wins",
)
class TheLastWriterWins(MemoryStore):
    def compare_and_set(self, key, value, expected, done, *, lease=None):
        entry = self.memory.entries.get(key)
        super().compare_and_set(key, value, entry.revision if entry else 0, done, lease=lease)


@breaks("test_only_who_knows_the_last_revision_may_write")
class DoesNotSayWhatStandsThere(MemoryStore):
    def compare_and_set(self, key, value, expected, done, *, lease=None):
        def less(swap):
            done(swap if swap.done else Swap(swap.done, swap.revision, None))

        super().compare_and_set(key, value, expected, less, lease=lease)


@breaks("test_a_key_can_be_deleted_and_made_anew")
class DeletingIsAnEmptyValue(Memory):
    def _write(self, key, value, lease):
        return super()._write(key, value or "", lease)


@breaks("test_deleting_nothing_changes_nothing")
class DeletingAlwaysCounts(MemoryStore):
    def compare_and_set(self, key, value, expected, done, *, lease=None):
        if value is None and key not in self.memory.entries:
            self.memory.write({})
        super().compare_and_set(key, value, expected, done, lease=lease)


@breaks("test_every_change_after_a_revision_is_seen_once_and_in_order")
class SeesNoPast(MemoryStore):
    def watch(self, prefix, after, changed, lost):
        return super().watch(prefix, self.memory.revision, changed, lost)


@breaks("test_every_change_after_a_revision_is_seen_once_and_in_order")
class SeesTooMuch(MemoryStore):
    def watch(self, prefix, after, changed, lost):
        return super().watch("/", after, changed, lost)


@breaks("test_changes_carry_the_entry_as_it_was_then")
class ShowsThePresent(MemoryStore):
    def watch(self, prefix, after, changed, lost):
        def now(changes):
            changed([replace(c, entry=self.memory.entries.get(c.key)) for c in changes])

        return super().watch(prefix, after, now, lost)


@breaks("test_a_watch_that_was_cancelled_is_silent")
class CannotBeCancelled(MemoryStore):
    def watch(self, prefix, after, changed, lost):
        super().watch(prefix, after, changed, lost)
        return _Watch(self, prefix, changed)


class WithLease(MemoryStore):
    lease_class = _Lease

    def lease(self, ttl, done):
        self.answer(done, self.lease_class(self, ttl))


@breaks(
    "test_keys_go_with_their_lease", "test_a_client_that_is_gone_loses_its_lease_and_others_see_it"
)
class LeasesAreForEver(WithLease):
    class lease_class(_Lease):
        def _arm(self):
            self._timer = self._memory.loop.call_later(1e9, self._end)


@breaks("test_keys_go_with_their_lease")
class KeysGoOneByOne(WithLease):
    class lease_class(_Lease):
        def _end(self):
            self.ended = True
            for key, lease in list(self._memory.lease_of.items()):
                if lease is self:
                    self._memory.write({key: None})


@breaks("test_a_lease_that_is_kept_alive_goes_on")
class CannotBeKeptAlive(WithLease):
    class lease_class(_Lease):
        def keep_alive(self, done):
            self._store.answer(done, not self.ended)


@breaks("test_a_lease_that_has_ended_cannot_be_kept_alive")
class LivesAgain(WithLease):
    class lease_class(_Lease):
        def keep_alive(self, done):
            self._store.answer(done, True)


@breaks("test_a_lease_that_is_revoked_takes_its_keys_at_once")
class RevokingLeavesTheKeys(WithLease):
    class lease_class(_Lease):
        def revoke(self, done):
            self.ended = True
            self._store.answer(done, True)


@breaks("test_nothing_can_hang_on_a_lease_that_has_ended")
class HangsOnAnything(MemoryStore):
    def compare_and_set(self, key, value, expected, done, *, lease=None):
        super().compare_and_set(key, value, expected, done)


@breaks("test_a_key_that_is_written_without_the_lease_stays")
class HangsForEver(Memory):
    def _write(self, key, value, lease):
        return super()._write(key, value, lease or self.lease_of.get(key))


@breaks("test_a_client_that_is_gone_loses_its_lease_and_others_see_it")
class ClosingKeepsLeases(MemoryStore):
    def close(self):
        super().close()
        for lease in self.memory.lease_of.values():
            lease._timer.cancel()


@breaks("test_a_client_that_is_closed_is_silent")
class SpeaksAfterItsEnd(MemoryStore):
    def close(self):
        pass


@breaks("test_a_store_begins_empty")
class AnswersWithinTheCall(MemoryStore):
    def get(self, prefix, done):
        done(Snapshot(0, ()))


# -- all of them -----------------------------------------------------------------------------------

SUBJECTS = {
    ActingLauncher: (Scripted, "launcher_class"),
    SubprocessLauncher: (Subprocesses, "launcher_class"),
    ScriptedRendezvous: (ScriptedAlone, "rendezvous_class"),
    MemoryStore: (InMemory, "store_class"),
    Memory: (InMemory, "memory_class"),
}


def contract_of(broken):
    """The contract, run against the broken implementation."""
    ((subject, name),) = [found for kind, found in SUBJECTS.items() if issubclass(broken, kind)]
    return type(broken.__name__, (subject,), {name: broken, "patience": 20.0})


@pytest.mark.parametrize(
    ("broken", "check"), BROKEN, ids=lambda each: getattr(each, "__name__", each)
)
def test_what_is_broken_is_found(broken, check):
    with pytest.raises((AssertionError, OSError, RuntimeError, TypeError)):
        run_check(contract_of(broken), check)


def test_the_suite_leaves_nothing_of_a_launcher_that_fails_it():
    left = []

    class Suite(contract_of(LeavesChildrenBehind)):
        def _child_of_a_worker(self, what, then):
            left.append(psutil.Process(super()._child_of_a_worker(what, then)))
            return left[0].pid

    with pytest.raises(AssertionError):
        run_check(Suite, "test_a_stop_reaches_what_a_worker_left_behind")
    left[0].wait(timeout=30)


@pytest.mark.parametrize("subject", [Subprocesses, ScriptedAlone, InMemory])
def test_every_check_is_seen_to_fail(subject):
    inherited = checks(LauncherContract) if subject is Subprocesses else []
    seen = {check for broken, check in BROKEN if issubclass(contract_of(broken), subject)}
    seen |= {check for broken, check in BROKEN if check in inherited}
    assert set(checks(subject)) - seen == set()

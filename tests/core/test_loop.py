"""The loop: one queue, in order, woken by descriptors, threads and timers."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from elastic_fsm.clock import SystemClock
from elastic_fsm.events import Event
from elastic_fsm.loop import Loop
from elastic_fsm.testing import ManualClock, NothingCanHappen


@pytest.fixture
def loop():
    made = Loop(ManualClock())
    yield made
    made.close()


@pytest.fixture
def real_loop():
    """Nothing takes longer than a few seconds, or the first event says so."""
    made = Loop(SystemClock())
    made.call_later(5, lambda: made.post_first(Event("too late")))
    yield made
    made.close()


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def take(loop, count):
    return [loop.next_event().name for _ in range(count)]


def test_first_in_first_out_but_for_what_goes_to_the_front(loop):
    for name in "abc":
        loop.post(Event(name))
    loop.post_first(Event("urgent"))
    loop.post_first(Event("more urgent"))
    assert take(loop, 5) == ["more urgent", "urgent", "a", "b", "c"]


def test_what_a_timer_calls_soon_does_not_wait_for_the_next_timer(loop):
    loop.call_later(1.0, lambda: loop.call_soon(lambda: loop.post(Event("soon"))))
    loop.call_later(60.0, lambda: loop.post(Event("late")))
    assert take(loop, 1) == ["soon"]
    assert loop.clock.now() == 1.0


def test_timers_fire_in_the_order_of_their_times_and_then_of_their_making(loop):
    for name, when in (("c", 3.0), ("a", 1.0), ("d", 3.0), ("b", 2.0), ("now", 0.0)):
        loop.call_later(when, lambda name=name: loop.post(Event(name)))
    assert take(loop, 5) == ["now", "a", "b", "c", "d"]
    assert loop.clock.now() == 3.0


def test_a_cancelled_timer_never_fires_and_holds_nobody_up(loop):
    loop.call_later(1.0, lambda: loop.post(Event("cancelled"))).cancel()
    late = loop.call_later(5.0, lambda: loop.post(Event("late")))
    loop.call_later(2.0, late.cancel)
    loop.call_later(9.0, lambda: loop.post(Event("end")))
    assert take(loop, 1) == ["end"]
    assert loop.clock.now() == 9.0


def test_timers_that_fall_due_together_may_cancel_each_other(loop):
    timers = []
    timers.append(loop.call_later(1.0, lambda: timers[1].cancel()))
    timers.append(loop.call_later(1.0, lambda: loop.post(Event("cancelled"))))
    loop.call_later(2.0, lambda: loop.post(Event("end")))
    assert take(loop, 1) == ["end"]


def test_timers_can_be_moved_all_together(loop):
    """After the process stood still: what was left of each before is left after."""
    for name, when in (("b", 2.0), ("a", 1.0)):
        loop.call_later(when, lambda name=name: loop.post(Event(name)))
    loop.postpone(10.0)
    loop.call_later(11.5, lambda: loop.post(Event("between")))
    assert take(loop, 1) == ["a"]
    assert loop.clock.now() == 11.0
    assert take(loop, 2) == ["between", "b"]


def test_awkward_times_are_reached(loop):
    """0.1 + (0.3 - 0.1) is not 0.3: the clock must get there all the same."""
    for when in (0.1, 0.3, 0.7, 1e9 + 0.1):
        loop.call_later(when, lambda when=when: loop.post(Event(str(when))))
    assert take(loop, 4) == ["0.1", "0.3", "0.7", "1000000000.1"]


def test_nothing_to_wait_for_is_an_error_and_no_hang(loop):
    loop.call_later(4.0, lambda: None)
    with pytest.raises(NothingCanHappen, match="at 4 s: no event is left and no timer armed"):
        loop.next_event()


def test_descriptors_are_looked_at_before_each_event(loop, pipe):
    """So that a signal is seen before an older event is acted on."""
    read, write = pipe

    def readable():
        os.read(read, 1)
        loop.post_first(Event("signal"))

    loop.watch(read, readable)
    loop.post(Event("older"))
    os.write(write, b"xx")
    assert take(loop, 2) == ["signal", "signal"]
    assert take(loop, 1) == ["older"]
    loop.unwatch(read)
    loop.unwatch(read)
    os.write(write, b"x")
    loop.post(Event("alone"))
    assert take(loop, 1) == ["alone"]


def test_a_callback_may_unwatch_what_became_readable_at_the_same_time(loop):
    """As when a command's end is seen together with its last words."""
    pairs = [socket.socketpair() for _ in range(2)]
    called = []

    def readable(mine):
        called.append(mine)
        for pair in pairs:
            loop.unwatch(pair[0])
            for end in pair:
                end.close()

    for pair in pairs:
        loop.watch(pair[0], lambda mine=pair: readable(mine))
        pair[1].send(b"x")
    loop.post(Event("after"))
    assert take(loop, 1) == ["after"]
    assert len(called) == 1


def test_calls_are_made_soon_in_order_and_before_the_next_event(loop):
    made = []
    loop.call_soon(lambda: made.append(1))
    loop.call_soon(lambda: made.append(2))
    loop.post(Event("a"))
    take(loop, 1)
    assert made == [1, 2]


@pytest.mark.parametrize("how", ["post", "post_first", "call_soon"])
def test_a_thread_wakes_the_loop(real_loop, how):
    def post():
        if how == "call_soon":
            real_loop.call_soon(lambda: real_loop.post(Event("woken")))
        else:
            getattr(real_loop, how)(Event("woken"))

    thread = threading.Timer(0.01, post)
    thread.start()
    assert real_loop.next_event().name == "woken"
    thread.join()


def test_many_threads_lose_nothing(real_loop):
    """More wake-ups than the socket holds."""

    def post(number):
        for _ in range(500):
            real_loop.post(Event(str(number)))

    threads = [threading.Thread(target=post, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    names = take(real_loop, 2000)
    for thread in threads:
        thread.join()
    assert {name: names.count(name) for name in names} == {str(n): 500 for n in range(4)}


def test_wakeups_that_find_the_socket_full_are_no_error(real_loop):
    thread = threading.Thread(target=lambda: [real_loop.post(Event("a")) for _ in range(20000)])
    thread.start()
    thread.join()
    assert take(real_loop, 20000) == ["a"] * 20000


def test_run_until_serves_descriptors_and_timers_but_no_events(loop):
    done = []
    loop.post(Event("waits"))
    loop.call_later(2.0, lambda: done.append(True))
    assert loop.run_until(lambda: bool(done), 5.0)
    assert loop.clock.now() == 2.0
    assert not loop.run_until(lambda: False, 5.0)
    assert loop.clock.now() == 7.0
    assert take(loop, 1) == ["waits"]


def test_the_system_clock_is_monotonic_and_waits():
    clock = SystemClock()
    before, wall = clock.now(), clock.wall()
    assert clock.wait(lambda timeout: ("selected", timeout), 3.0) == ("selected", 3.0)
    assert clock.now() >= before
    assert wall > 1_600_000_000

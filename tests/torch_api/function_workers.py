"""Functions for workers: at the top level of a module, as a fresh interpreter needs them."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading


def give(value=None):
    return value


def describe(*names):
    """Who the worker is, and some of its environment."""
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "folder": os.getcwd(),
        "stdin": sys.stdin.read(),
        "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
        "env": {name: os.environ.get(name) for name in names},
    }


class Odd(Exception):
    """One that can be pickled, and not be made again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fail(message):
    raise ValueError(message)


def fail_oddly():
    raise Odd(1, 2)


def leave(how):
    """End in one of many ways."""
    print("leaving", how, flush=True)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how.startswith("os._exit "):
        os._exit(int(how.split()[1]))
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
    sys.exit({"none": None, "text": "the text"}.get(how, how) if not how.isdigit() else int(how))


def close_all(value, file=None):
    """Close what is not its own, as daemons do; with ``file``, open so many that one of them gets
    the number of ours."""
    os.closerange(3, 256)
    if file is not None:
        opened = [os.open(f"{file}{number}", os.O_RDWR | os.O_CREAT) for number in range(20)]
        assert opened
    return give(value) if value != "raise" else fail("no luck")


def big(size):
    return bytes(size)


def length(data):
    return len(data)


def generator():
    return (n for n in range(3))


def _not_here():
    raise RuntimeError("cannot be made here")


class Unreadable:
    def __reduce__(self):
        return _not_here, ()


def unreadable():
    return Unreadable()


def die_after_the_result():
    atexit.register(os.kill, os.getpid(), signal.SIGKILL)
    return "never seen"


def finish_late(folder):
    """Work that goes on when the function has returned."""

    def write(name):
        open(os.path.join(folder, name), "w").close()

    def work():
        threading.main_thread().join()
        write("thread")

    atexit.register(write, "at exit")
    threading.Thread(target=work).start()


def ring(bell, line):
    with open(bell, "w") as file:
        file.write(f"{line}\n")


def leave_things_behind(bell):
    """A child in a session of its own, and an orphan of one; then wait for ever."""
    sleep = ["sleep", os.environ["SLEEP"]]
    subprocess.Popen(sleep, start_new_session=True)
    subprocess.run(["sh", "-c", 'setsid sleep "$SLEEP" & exit 0'], check=True)
    ring(bell, os.getpid())
    signal.pause()


def open_in_a_program():
    """The descriptors of a program that the worker starts, without Python's own caution."""
    path = "out-of-a-program"
    os.system(f"ls /proc/self/fd > {path}")
    with open(path) as file:
        return len(file.read().split())


def become(*argv):
    """Any command at all."""
    os.execvpe(argv[0], argv, os.environ)  # and not what libraries have put in beside it


class LeavesWhereItIsRead:
    """Ends the program that makes it again from its pickle."""

    def __reduce__(self):
        return sys.exit, (3,)


def give_what_leaves():
    return LeavesWhereItIsRead()


class Unprintable(Exception):
    """One that cannot even be shown."""

    def __str__(self):
        raise RuntimeError("cannot be shown")


def fail_unprintably():
    raise Unprintable

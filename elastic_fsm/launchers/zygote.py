"""A process that has imported what the workers need, and becomes each of them by a fork.

Theory of operation. The agent sends descriptors over a socket: the *order* (environment, folder,
what to run), the *hold*, the three standard streams and, for a function, where its outcome goes.
The zygote forks twice and its own child ends at once, so that the worker becomes the child of
the agent, which is the subreaper. The answer is the worker's pid. The worker waits at the hold
until the agent has noted it; if the agent is gone by then, so is the worker. A zygote ends
when its socket does. It must have no threads and no open device, for neither survives a fork.
"""

from __future__ import annotations

import builtins
import errno
import gc
import importlib
import json
import os
import pickle
import socket
import sys
import time
import traceback
import types
from importlib.machinery import SourceFileLoader
from typing import IO, TYPE_CHECKING, Any

from elastic_fsm.launchers import child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["main"]

_MOST_DESCRIPTORS = 250


def main(control: int, path: str, *preload: str) -> None:
    """The zygote's life; in a worker, the worker's. ``path`` is the agent's ``sys.path``."""
    with socket.socket(fileno=control) as agent:
        report = _preload(preload, path.split(os.pathsep))
        agent.send(json.dumps(report).encode())
        received = None if "error" in report else _serve(agent)
    if received:
        _become_worker(received)


def _preload(names: Sequence[str], path: Sequence[str]) -> dict[str, Any]:
    """What the agent should know of how it went."""
    own = list(sys.path)
    _begin_path_with("")
    sys.path += [folder for folder in path if folder not in own]
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{name} cannot be imported: {type(error).__name__}: {error}"}
    sys.path[:] = own
    sys.stdout.flush()
    gc.collect()
    gc.freeze()  # a collection in a worker would copy every page that it looks at
    return {"threads": len(os.listdir("/proc/self/task")) - 1, "cuda": _has_cuda()}


def _has_cuda() -> bool:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(cuda.is_initialized())


def _serve(agent: socket.socket) -> list[int] | None:
    """Fork as often as asked; None when the agent is gone, a worker's descriptors in a worker."""
    while True:
        message, received, _, _ = socket.recv_fds(agent, 16, _MOST_DESCRIPTORS)
        if not message:
            return None
        try:
            pid = _fork()
        except OSError as error:
            agent.send(f"{-(error.errno or errno.EAGAIN)}".encode())
        else:
            if pid == 0:
                return received
            agent.send(f"{pid}".encode())
        for descriptor in received:
            os.close(descriptor)


def _fork() -> int:
    """The pid of a new process that is not a child of this one; 0 in that process."""
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(reading)
        return _fork_again(writing)
    os.close(writing)
    told = os.read(reading, 32)
    os.close(reading)
    os.waitpid(middle, 0)  # from now on the worker is the agent's child
    if not told:
        raise OSError(errno.EAGAIN, "")
    return int(told)


def _fork_again(writing: int) -> int:
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os._exit(0)
    os.setsid()
    os.write(writing, f"{os.getpid()}".encode())
    os.close(writing)
    return 0


# -- in the worker -------------------------------------------------------------------------------


def _become_worker(received: Sequence[int]) -> None:
    order, hold, *streams = received[:5]
    if not os.read(hold, 1):
        os._exit(0)
    os.close(hold)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    child.show_only_their_frames()
    with open(order, "rb") as file:
        settings = pickle.load(file)
        _take_over(settings["env"], settings["cwd"])
        kind, name, *args = settings["task"]
        if kind == "function":
            child.load_and_call(file, received[6:], received[5])
    if kind == "module":
        _run_module(name, args)
    elif kind == "script":
        _run_script(name, args)


def _take_over(env: Mapping[str, str], cwd: str | None) -> None:
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    if cwd is not None:
        os.chdir(cwd)
    # Python's own generator is seeded anew by a fork; numpy's would be the same in all workers.
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def _run_module(name: str, args: Sequence[str]) -> None:
    """As ``python -m name`` does, by the same function of the standard library."""
    import runpy

    _new_main()
    sys.argv = ["-m", *args]
    _begin_path_with(os.getcwd())
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_script(path: str, args: Sequence[str]) -> None:
    """As ``python path`` does."""
    main = _new_main()
    main.__file__ = os.path.abspath(path)
    main.__loader__ = SourceFileLoader("__main__", main.__file__)
    sys.argv = [path, *args]
    _begin_path_with(os.path.dirname(os.path.realpath(path)))
    exec(_compiled(main.__file__), vars(main))


def _begin_path_with(folder: str) -> None:
    """As the interpreter does; until then nothing there can be taken for a module of ours."""
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _compiled(path: str) -> types.CodeType:
    file: IO[bytes]
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec")


def _new_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    vars(main).update(__builtins__=builtins, __annotations__={}, __cached__=None)
    main.__doc__ = None
    sys.modules["__main__"] = main
    return main

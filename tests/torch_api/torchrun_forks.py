"""torch's own torchrun, many times: torch is imported once, each command line runs in a fork.

The file named first holds ``[{module, argv, env, cwd, out, err, together}, …]``: those of one node
after the other are started ``together``. The exit codes go to the file named second.
"""

import importlib
import json
import os
import sys

import torch.distributed.launch  # noqa: F401  # what takes so long

AT_ONCE = 4


def run(line):
    """In the fork: become a torchrun."""
    os.chdir(line["cwd"])
    os.environ.clear()
    os.environ.update(line["env"])
    for fd, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(line[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND), fd)
    sys.argv = ["torchrun", *line["argv"]]
    try:
        importlib.import_module(line["module"]).main()
    except SystemExit as leave:
        return leave.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0


def start(line):
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = run(line)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid


def main():
    with open(sys.argv[1]) as file:
        lines = json.load(file)
    running, codes = {}, [None] * len(lines)
    for index, line in enumerate(lines):
        running[start(line)] = index
        while len(running) >= AT_ONCE and not line["together"]:
            reap(running, codes)
    while running:
        reap(running, codes)
    with open(sys.argv[2], "w") as file:
        json.dump(codes, file)


def reap(running, codes):
    pid, status = os.wait()
    codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":  # not in what --run-path spawns
    main()

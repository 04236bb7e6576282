"""The yardstick: the least that an agent could do, with no rules, logs, guardian or report.

    python bare.py MAX_RESTARTS COMMAND ...

Starts 8 workers, waits for the first that ends, sends the others SIGTERM, and starts all again
while restarts are left. What it needs is the machine's share of an agent's times.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

WORKERS = 8


def start(command: list[str], attempt: int) -> dict[int, subprocess.Popen[bytes]]:
    """The workers, by the pidfd that tells of their end."""
    workers = {}
    for rank in range(WORKERS):
        ranks = {"LOCAL_RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": str(attempt)}
        worker = subprocess.Popen(command, env=os.environ | ranks, start_new_session=True)
        workers[os.pidfd_open(worker.pid)] = worker
    return workers


def stop(workers: dict[int, subprocess.Popen[bytes]]) -> None:
    for worker in workers.values():
        os.killpg(worker.pid, signal.SIGTERM)
    for descriptor, worker in workers.items():
        worker.wait()
        os.close(descriptor)


def main() -> int:
    max_restarts, command = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for attempt in range(max_restarts + 1):
        workers = start(command, attempt)
        try:
            ended = select.epoll(len(workers))
            for descriptor in workers:
                ended.register(descriptor, select.EPOLLIN)
            ended.poll()
        finally:
            stop(workers)
    return 1


if __name__ == "__main__":
    sys.exit(main())

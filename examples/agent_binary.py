"""A program in two processes, by an agent of this program's own.

    python examples/agent_binary.py

Any program will do; each finds its rank in its environment. ``${local_rank}`` is filled in. Lines
of the workers go to the console with a prefix, and to a file for each worker and start.
"""

from __future__ import annotations

import sys

from elastic_fsm import DefaultLogsSpecs, LocalElasticAgent, Std, WorkerSpec

TRAINER = 'echo "device $1: rank $RANK of $WORLD_SIZE meets the others at $MASTER_ADDR"'


def main():
    spec = WorkerSpec(
        role="trainer",
        local_world_size=2,
        entrypoint="/bin/sh",
        args=("-c", TRAINER, "trainer", "${local_rank}"),
        max_restarts=1,
    )
    logs = DefaultLogsSpecs(log_dir="elastic_logs", tee=Std.ALL)
    result = LocalElasticAgent(spec, logs).run()
    if result.is_failed():
        for rank, failure in result.failures.items():
            print(f"rank {rank} ended with {failure.exitcode}: {failure.stderr_tail}")
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())

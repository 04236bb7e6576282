"""A function in two processes, by an agent of this program's own.

    python examples/agent_function.py

What the function returns is in the result, by global rank. An exception in a worker restarts both;
when there is no restart left it is in the result as well.
"""

from __future__ import annotations

import os

from elastic_fsm import LocalElasticAgent, WorkerSpec


def trainer(steps):
    """Each worker sums its share of the numbers below ``steps``."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return sum(range(rank, steps, world_size))


def main():
    spec = WorkerSpec(
        role="trainer",
        local_world_size=2,
        entrypoint=trainer,
        args=(1000,),
        max_restarts=1,
    )
    result = LocalElasticAgent(spec, start_method="spawn").run()
    if result.is_failed():
        for rank, failure in result.failures.items():
            print(f"rank {rank}: {failure.message}")
    else:
        print(f"the shares are {result.return_values}")
        print(f"the sum is {sum(result.return_values.values())}")
    return result.exit_code


if __name__ == "__main__":  # spawned workers import this file
    raise SystemExit(main())

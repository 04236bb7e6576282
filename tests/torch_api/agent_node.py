"""One node of a run over one of torch's own handlers; the tests start several.

Usage: agent_node.py BACKEND ENDPOINT NODES RANK RESTARTS RUN_DIR
"""

from __future__ import annotations

import os
import sys

from elastic_fsm.group import WorkerSpec
from elastic_fsm.logs.specs import DefaultLogsSpecs
from elastic_fsm.rendezvous.handler import RendezvousParameters
from elastic_fsm.rendezvous.handler_registry import get_rendezvous_handler
from elastic_fsm.server.local import LocalElasticAgent


def train(restarts: int) -> tuple[int, float]:
    """All workers add their ranks up; worker 0 dies until its node was restarted so often."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(total)
    print("sum", total.item(), "of", dist.get_world_size(), flush=True)
    dist.barrier()
    count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if dist.get_rank() == 0 and count < restarts:
        os._exit(3)
    dist.barrier()
    dist.destroy_process_group()
    return count, total.item()


def main(backend: str, endpoint: str, nodes: str, rank: str, restarts: str, run_dir: str) -> None:
    size = int(nodes)
    options = {"c10d": {}, "file": {"store_type": "file"}, "static": {"rank": int(rank)}}
    name = "static" if backend == "static" else "c10d"
    parameters = RendezvousParameters(
        name, endpoint, "run", size, size, local_addr="127.0.0.1", **options[backend]
    )
    spec = WorkerSpec(
        "trainer",
        1,
        rdzv_handler=get_rendezvous_handler(parameters),
        entrypoint=train,
        args=(int(restarts),),
        max_restarts=int(restarts),
        local_addr="127.0.0.1",
    )
    # Forks of a process that has imported torch: 50 restarts would mostly import it, else.
    overrides = [f"run_dir={run_dir}", "launcher=forkserver", "launcher.preload=[torch]"]
    logs = DefaultLogsSpecs(os.devnull)
    result = LocalElasticAgent(spec, logs, overrides=overrides).run()
    print(result.state.value, sorted(result.return_values.items()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

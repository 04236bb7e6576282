"""Command lines after the patterns of torch's documentation, to be run by torchrun and by us."""

from __future__ import annotations

from dataclasses import dataclass, field

DUMP = "dump.py"


@dataclass(frozen=True)
class Line:
    """One command line, or one for each node. ``{port}`` is a free port. ``code`` is what every
    node exits with."""

    nodes: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    code: int = 0
    module: str = "run"
    workers: int = 1


def line(*nodes, workers=1, code=0, module="run", **env):
    return Line(nodes, env, code, module, workers)


LINES = {
    # Single node.
    "nothing but a script": line("dump.py"),
    "two workers": line("--nproc-per-node=2 dump.py", workers=2),
    "underscores": line("--nproc_per_node 2 dump.py --lr 0.1", workers=2),
    "standalone": line("--standalone --nnodes=1 --nproc-per-node=2 dump.py --a b", workers=2),
    "standalone by PET": line("dump.py", PET_STANDALONE="1", PET_NPROC_PER_NODE="2", workers=2),
    "standalone switched off by PET": line("dump.py", PET_STANDALONE="0"),
    "PET loses to the option": line(
        "--nproc-per-node=1 dump.py", PET_NPROC_PER_NODE="2", PET_ROLE="of-pet"
    ),
    "a stacked single node": line(
        "--nnodes=1 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 "
        "--rdzv-id=stacked dump.py",
        workers=2,
    ),
    "static with a port": line("--master-port={port} dump.py"),
    "static with address and port": line(
        "--nnodes=1 --node-rank=0 --master_addr=127.0.0.1 --master_port={port} "
        "--nproc_per_node=2 dump.py",
        workers=2,
    ),
    "static with an endpoint": line("--rdzv-endpoint=127.0.0.1:{port} --rdzv-id=x9 dump.py"),
    "cpu": line("--nproc-per-node=cpu dump.py", workers=0),
    "auto without GPUs": line("--nproc-per-node=auto dump.py", workers=0),
    "a role": line("--role trainer --nproc-per-node=2 dump.py", workers=2),
    "restarts to be had": line("--max-restarts=3 --monitor-interval=0.05 dump.py"),
    "a restart": line("--max-restarts=1 --nproc-per-node=2 dump.py", FAIL_ON="1:0", workers=2),
    "a failure": line("--nproc-per-node=2 dump.py", FAIL_ON="0:0", workers=2, code=1),
    "no more restarts": line(
        "--max-restarts=1 -r 3 --log-dir logs dump.py", FAIL_ON="0:0,0:1", code=1
    ),
    # What runs.
    "a module": line("-m dump --x 1"),
    "a module, long": line("--module dump"),
    "a script without .py": line("plain a=b"),
    "no python": line("--no-python ./runs.sh one 'two three'"),
    "no python, a .py file": line("--no_python ./direct.py one"),
    "no python by PET": line("./runs.sh", PET_NO_PYTHON="1"),
    "run path": line("--run-path {here}/dump.py --x y"),
    "another interpreter": line("dump.py", PYTHON_EXEC="{here}/mypython"),
    "the local rank in arguments": line(
        "--nproc-per-node=2 dump.py --device=cuda:${local_rank} '$HOME' '${x}'", workers=2
    ),
    "dashes among the script's arguments": line("dump.py --nproc-per-node 7 -m -- -x"),
    "virtual local rank": line("--virtual-local-rank --nproc-per-node=2 dump.py", workers=2),
    "threads by the user": line("--nproc-per-node=2 dump.py", OMP_NUM_THREADS="3", workers=2),
    "signals": line("--signals-to-handle=SIGTERM,SIGUSR1 --shutdown-timeout=5 dump.py"),
    # Logs.
    "redirects": line("-r 3 --log-dir=logs --nproc-per-node=2 dump.py", workers=2),
    "redirects by rank": line(
        "--redirects 0:1,1:2 --log_dir logs --nproc-per-node=2 dump.py", workers=2
    ),
    "tee": line("--tee 3 --log-dir=logs --nproc-per-node=2 dump.py", workers=2),
    "tee by rank": line("-t 0:3,1:1 --log-dir=logs --nproc-per-node=2 dump.py", workers=2),
    "redirect and tee": line(
        "-r 1 -t 2 --log-dir=logs --rdzv-id=jobid --nproc-per-node=2 dump.py", workers=2
    ),
    "a filter of ranks": line(
        "--local-ranks-filter=0 -t 3 --log-dir=logs --nproc-per-node=2 dump.py", workers=2
    ),
    "a filter of ranks without files": line(
        "--local_ranks_filter 1 --nproc-per-node=2 dump.py", workers=2
    ),
    "copies of lines": line(
        "-t 3 --log-dir=logs --duplicate-stdout-filters=apple "
        "--duplicate_stderr_filters 'x,,y,0 p' --nproc-per-node=2 dump.py",
        workers=2,
    ),
    "a template of prefixes": line(
        "-t 3 --log-dir=logs --role=tr --nproc-per-node=2 dump.py",
        workers=2,
        TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="<${role_name}-${rank}/${local_rank}> ",
    ),
    "logs by PET": line(
        "dump.py", PET_TEE="1", PET_REDIRECTS="2", PET_LOG_DIR="logs", PET_RDZV_ID="pets"
    ),
    "no files at all": line("--log-dir=/dev/null dump.py"),
    # torch.distributed.launch.
    "launch": line("--nproc-per-node=2 dump.py --x", module="launch", workers=2),
    "launch --use-env": line("--use-env --nproc_per_node=1 dump.py", module="launch"),
    # More than one node.
    "two static nodes": line(
        "--nnodes=2 --node-rank=0 --nproc-per-node=2 --master-addr=127.0.0.1 "
        "--master-port={port} -r 3 --log-dir=logs0 dump.py",
        "--nnodes=2 --node-rank=1 --nproc-per-node=2 --master-addr=127.0.0.1 "
        "--master-port={port} -r 3 --log-dir=logs1 dump.py",
        workers=4,
    ),
    "two elastic nodes": line(
        *[
            "--nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} "
            "--rdzv-id=jid --rdzv-conf=join_timeout=100 dump.py"
        ]
        * 2,
        workers=2,
    ),
}

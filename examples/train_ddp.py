"""Train a small network with PyTorch's DistributedDataParallel, on the CPU, with checkpoints.

Written as the tutorials for torchrun do it; nothing in here knows which agent started it.

    torchrun --nproc-per-node 2 examples/train_ddp.py
    elastic-fsm run -n 2 spec.max_restarts=1 examples/train_ddp.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--checkpoint", help="resume from this file and write it after each epoch")
    parser.add_argument("--crash-rank", type=int, help="this rank crashes, on the first start only")
    parser.add_argument("--crash-step", type=int, default=60)
    return parser.parse_args()


def datasets():
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images / 16.0, dtype=torch.float32)
    labels = torch.tensor(labels)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return TensorDataset(images[:-360], labels[:-360]), TensorDataset(images[-360:], labels[-360:])


def load_checkpoint(path, network, optimizer):
    if not path or not os.path.exists(path):
        return 0, 0
    saved = torch.load(path, map_location="cpu", weights_only=True)
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"], saved["step"]


def save_checkpoint(path, network, optimizer, epoch, step):
    state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "epoch": epoch, "step": step}, path + ".tmp")
    os.replace(path + ".tmp", path)


def accuracy(network, test_set):
    images, labels = test_set.tensors
    with torch.no_grad():
        return (network(images).argmax(dim=1) == labels).float().mean().item()


def maybe_crash(options, step):
    first_start = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0
    if first_start and dist.get_rank() == options.crash_rank and step == options.crash_step:
        raise RuntimeError(f"rank {dist.get_rank()} crashes at step {step}, as it was asked to")


def train(options, network, optimizer):
    first_epoch, step = load_checkpoint(options.checkpoint, network, optimizer)
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()}: from epoch {first_epoch}", flush=True)
    train_set, test_set = datasets()
    sampler = DistributedSampler(train_set, seed=0)
    loader = DataLoader(train_set, batch_size=options.batch_size, sampler=sampler)
    model = DistributedDataParallel(network)
    loss_of = nn.CrossEntropyLoss()

    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            maybe_crash(options, step)
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
        if rank == 0:
            print(f"epoch {epoch + 1}  loss {loss.item():.4f}", flush=True)
            if options.checkpoint:
                save_checkpoint(options.checkpoint, network, optimizer, epoch + 1, step)
        dist.barrier()  # nobody runs ahead of the checkpoint

    if rank == 0:
        print(f"test accuracy {accuracy(network, test_set):.4f}", flush=True)
    dist.barrier()  # rank 0 serves the store: it must not leave first


# The process group must end before the interpreter does: its threads touch Python objects, and
# torch aborts when one of them does so too late. It ends in destroy_process_group() if nobody
# else holds it. So the optimizer comes first, for the first one imports modules of torch that keep
# an existing group for good; and the DistributedDataParallel model is gone when train() returns.
@record
def main():
    options = parse()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    dist.init_process_group(backend="gloo")
    train(options, network, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

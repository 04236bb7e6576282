"""Train a small network on scikit-learn's handwritten digits, data-parallel, with numpy alone.

    elastic-fsm run -n 4 spec.max_restarts=1 examples/train_numpy.py
    python examples/train_numpy.py                     # alone: a world of one

Each rank takes its share of every batch, the gradients are averaged over MASTER_ADDR:MASTER_PORT,
and rank 0 writes a checkpoint now and then. Batches depend on the step's number alone and sums are
made in rank order, so that a run which crashes and resumes ends with the very weights of an
undisturbed one. To see it:

    elastic-fsm run -n 4 spec.max_restarts=1 examples/train_numpy.py \\
        --checkpoint digits.npz --crash-rank 2 --crash-step 120
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
from allreduce import Group, PeerLost

PIXELS, HIDDEN, CLASSES = 64, 48, 10
WEIGHTS = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
TEST_IMAGES = 360
SEED = 1797


def main() -> int:
    options = parse()
    group = Group()
    try:
        train(group, options)
    except PeerLost as error:
        # No traceback: the cause is in the worker that ended first, and it shows its own.
        print(f"giving up: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="data-parallel training with numpy")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--checkpoint", type=Path, help="resume from this file and write it")
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--crash-rank", type=int, help="this rank crashes, on the first start only")
    parser.add_argument("--crash-step", type=int, default=120)
    return parser.parse_args()


def train(group: Group, options: argparse.Namespace) -> None:
    images, labels = load_digits()
    step, weights, velocity = start(group, options.checkpoint)
    print(
        f"rank {group.rank} of {group.world_size}: from step {step} to {options.steps}", flush=True
    )
    while step < options.steps:
        crash_if_asked(group, options, step)
        batch = draw_batch(step, options.batch_size, len(images) - TEST_IMAGES)
        share = batch[group.rank :: group.world_size]
        loss, gradient = loss_and_gradient(weights, images[share], labels[share])
        total = group.sum(np.append(gradient, loss)) / len(batch)
        velocity = 0.9 * velocity - options.learning_rate * total[:-1]
        weights = weights + velocity
        step += 1
        if group.rank == 0 and (step % options.checkpoint_every == 0 or step == options.steps):
            print(f"step {step:4d}  loss {total[-1]:.4f}", flush=True)
            if options.checkpoint:
                save(options.checkpoint, step, weights, velocity)
    if group.rank == 0:
        accuracy = np.mean(predict(weights, images[-TEST_IMAGES:]) == labels[-TEST_IMAGES:])
        digest = hashlib.sha256(weights.tobytes()).hexdigest()[:12]
        print(f"test accuracy {accuracy:.4f}  (weights {digest})", flush=True)


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """The 1797 images of scikit-learn's digits, 8 by 8 pixels, in a fixed shuffled order.

    Read from the package's own file: importing scikit-learn takes each worker a second.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise SystemExit("this example needs the digits of scikit-learn: pip install scikit-learn")
    table = np.loadtxt(Path(package.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    table = table[np.random.default_rng(SEED).permutation(len(table))]
    return table[:, :PIXELS] / 16.0, table[:, PIXELS].astype(int)


def draw_batch(step: int, size: int, available: int) -> np.ndarray:
    """The same images for the same step on every rank and in every attempt."""
    return np.random.default_rng([SEED, step]).choice(available, size, replace=False)


def start(group: Group, checkpoint: Path | None) -> tuple[int, np.ndarray, np.ndarray]:
    """Step, weights and velocity to begin with: rank 0 knows, the others are told."""
    state = np.zeros(1 + 2 * WEIGHTS)
    if group.rank == 0 and checkpoint and checkpoint.exists():
        with np.load(checkpoint) as saved:
            state = np.concatenate([[saved["step"]], saved["weights"], saved["velocity"]])
        print(f"resuming from {checkpoint} at step {int(state[0])}", flush=True)
    elif group.rank == 0:
        state[1 : 1 + WEIGHTS] = np.random.default_rng(SEED).normal(0, 0.1, WEIGHTS)
    state = group.broadcast(state)
    return int(state[0]), state[1 : 1 + WEIGHTS], state[1 + WEIGHTS :]


def save(checkpoint: Path, step: int, weights: np.ndarray, velocity: np.ndarray) -> None:
    """Write beside the file, then rename: a crash at any moment leaves a whole checkpoint."""
    unfinished = checkpoint.with_name(checkpoint.name + ".unfinished")
    with unfinished.open("wb") as file:
        np.savez(file, step=step, weights=weights, velocity=velocity)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(checkpoint)


def layers(weights: np.ndarray) -> list[np.ndarray]:
    """The flat vector as two layers, each a matrix with the bias as its last row."""
    cut = (PIXELS + 1) * HIDDEN
    return [weights[:cut].reshape(PIXELS + 1, HIDDEN), weights[cut:].reshape(HIDDEN + 1, CLASSES)]


def forward(weights: np.ndarray, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = layers(weights)
    hidden = np.tanh(images @ first[:-1] + first[-1])
    scores = hidden @ second[:-1] + second[-1]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def predict(weights: np.ndarray, images: np.ndarray) -> np.ndarray:
    return forward(weights, images)[1].argmax(axis=1)


def loss_and_gradient(
    weights: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """Cross entropy, *summed* over the images: shares of any size then add up rightly."""
    hidden, odds = forward(weights, images)
    rows = np.arange(len(labels))
    loss = -np.log(odds[rows, labels]).sum()
    odds[rows, labels] -= 1.0
    back = (odds @ layers(weights)[1][:-1].T) * (1.0 - hidden**2)
    parts = [images.T @ back, back.sum(axis=0), hidden.T @ odds, odds.sum(axis=0)]
    return float(loss), np.concatenate([part.ravel() for part in parts])


def crash_if_asked(group: Group, options: argparse.Namespace, step: int) -> None:
    first_start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if first_start and (group.rank, step) == (options.crash_rank, options.crash_step):
        raise RuntimeError(f"rank {group.rank} crashes at step {step}, as it was asked to")


if __name__ == "__main__":
    sys.exit(main())

"""The data in shards, of which each process of a job reads its own: handwritten digits, or made-up pictures.

Each step takes as many pictures from every shard, whichever process has it. So a step of the whole job trains on the
same pictures for 1, 2 or 4 processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

SHARDS = 4
SIDE = 8  # pixels, as in scikit-learn's digits
CLASSES = 10
TRAINING = 1500  # of 1797 digits
SYNTHETIC = 384  # made-up pictures of a shard
SYNTHETIC_SIDE = 32


class Pictures(NamedTuple):
    x: np.ndarray  # count, side, side, 1; from 0 to 1
    y: np.ndarray  # the class of each


def save(path: Path, pictures: Pictures) -> None:
    np.savez(path, x=pictures.x, y=pictures.y)


def load(path: Path) -> Pictures:
    with np.load(path) as found:
        return Pictures(found["x"], found["y"])


def of_process(data: Path | None, rank: int, size: int) -> list[Pictures]:
    """Return the shards of process *rank* of *size*: those in the folder *data*, or made-up ones."""
    if SHARDS % size:
        raise SystemExit(
            f"{SHARDS} shards cannot be shared by {size} processes: start 1, 2 or 4 (nodes times processes_per_node)"
        )
    own = range(rank * SHARDS // size, (rank + 1) * SHARDS // size)
    return [
        synthetic(shard) if data is None else load(data / f"train-{shard}.npz") for shard in own
    ]


def synthetic(shard: int) -> Pictures:
    draw = np.random.RandomState(shard)
    x = draw.rand(SYNTHETIC, SYNTHETIC_SIDE, SYNTHETIC_SIDE, 1)
    return Pictures(x, draw.randint(0, CLASSES, SYNTHETIC))


def order(count: int, epoch: int) -> np.ndarray:
    """Return the order of the *count* pictures of any shard in *epoch*."""
    return np.random.RandomState(epoch).permutation(count)

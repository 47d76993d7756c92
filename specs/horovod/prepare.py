"""Write scikit-learn's handwritten digits as shards for training, and a set for evaluation: prepare.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from shards import SHARDS, SIDE, TRAINING, Pictures, save
from sklearn.datasets import load_digits


def main(folder: Path) -> None:
    digits = load_digits()
    x = digits.images.reshape(-1, SIDE, SIDE, 1) / 16
    # The last pictures are by other people than the first: they are shuffled, always the same way.
    chosen = np.random.RandomState(0).permutation(len(x))
    training, test = np.split(chosen, [TRAINING])
    for shard in range(SHARDS):
        own = training[shard::SHARDS]
        save(folder / f"train-{shard}.npz", Pictures(x[own], digits.target[own]))
    save(folder / "test.npz", Pictures(x[test], digits.target[test]))
    print(f"{len(training)} digits in {SHARDS} shards, {len(test)} to evaluate")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Print how many of the digits that prepare.py kept apart a trained network recognises: evaluate.py DATA MODEL."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf
from network import network
from shards import SIDE, load


def main(data: Path, model: Path) -> None:
    weights = model / "network.h5"
    pictures = load(data / "test.npz")
    found = network(SIDE)
    found.load_weights(weights)
    told = tf.argmax(found.predict(pictures.x, verbose=0), axis=1).numpy()
    print(f"accuracy={(told == pictures.y).mean():.4f} of {len(pictures.y)} digits")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

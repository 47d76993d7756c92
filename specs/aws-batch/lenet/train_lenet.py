"""Train LeNet on handwritten digits with NumPy: the network of the AWS Batch walk-through, without MXNet.

    python train_lenet.py --lr 0.1 --out model [--data FOLDER]

FOLDER has train.npz and test.npz (arrays x and y), as specs/mnist/prepare_data.py writes them. Without it, digits are
made: eight by eight pixels of ten patterns with noise, so that the program needs no download. It prints a line for
each epoch, and writes the network to OUT/lenet.npz, which predict.py reads.
"""

import argparse
import os
import sys

import numpy as np
from network import Network, load, make_digits


def train(network, images, labels, lr, batch, dice):
    """Take one step for each batch of one epoch; return the mean loss of the epoch."""
    order, losses = dice.permutation(len(images)), []
    for at in range(0, len(images) - batch + 1, batch):
        mine = order[at : at + batch]
        losses.append(network.learn(images[mine], labels[mine], lr))
    return float(np.mean(losses))


def save(network, folder):
    """Write the file beside its place and rename it, so that nobody ever sees half of it."""
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, ".lenet.part.npz")
    np.savez(part, **network.weights)
    os.replace(part, os.path.join(folder, "lenet.npz"))


def options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--samples", type=int, default=5000, help="digits that are made")
    parser.add_argument(
        "--data", help="a folder with train.npz and test.npz, instead of made digits"
    )
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def main():
    given, dice = options(), np.random.default_rng(1)
    if given.data:
        (images, labels), test = load(given.data, "train"), load(given.data, "test")
    else:
        (images, labels), test = make_digits(given.samples, 1), make_digits(500, 2)
    network = Network.new(images.shape[1], dice)
    for epoch in range(1, given.epochs + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # a learning rate may be too large
            loss = train(network, images, labels, given.lr, given.batch, dice)
            accuracy = float(np.mean(network.answer(test[0]) == test[1]))
        print(f"epoch={epoch} loss={loss:.4f} validation-accuracy={accuracy:.4f}", flush=True)
        if not np.isfinite(loss):
            break
    save(network, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

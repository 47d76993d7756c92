"""Say which digits a trained network sees: LABEL ANSWER on each line, and how many are right.

python predict.py MODEL --out FOLDER [--data FOLDER]
"""

import argparse
import os
import sys

import numpy as np
from network import Network, load, make_digits


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="the folder with lenet.npz")
    parser.add_argument("--samples", type=int, default=1000, help="digits that are made")
    parser.add_argument("--data", help="a folder with test.npz, instead of made digits")
    parser.add_argument("--out", required=True)
    given = parser.parse_args()
    with np.load(os.path.join(given.model, "lenet.npz")) as arrays:
        network = Network(dict(arrays))
    images, labels = load(given.data, "test") if given.data else make_digits(given.samples, 3)
    answers = network.answer(images)
    os.makedirs(given.out, exist_ok=True)
    with open(os.path.join(given.out, "answers.txt"), "w", encoding="ascii") as file:
        file.writelines(f"{a} {b}\n" for a, b in zip(labels, answers, strict=True))
    print(f"predicted={len(answers)} accuracy={np.mean(answers == labels):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

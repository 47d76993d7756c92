"""Train a small network on handwritten digits, each process of mpirun on its share of the data.

    mpirun -n 2 python train_mnist.py --epoch 20 --out model

The first process alone prints, finds the data (prepare_data.py) and writes: log.json after every
epoch, and the trained network as model_epoch_<N>.npz at the end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mpi4py

# MPI is to start when the data is there, not when it is imported: hence the imports below this.
# ruff: noqa: E402
mpi4py.rc(initialize=False, finalize=True)

import chainer
import chainer.functions as F
import chainer.links as L
import chainermn
import numpy as np
import prepare_data
from chainer.datasets import TupleDataset
from chainer.iterators import SerialIterator
from chainer.training import Trainer, extensions
from chainer.training.updaters import StandardUpdater
from chainermn import global_except_hook
from mpi4py import MPI
from prepare_data import DataError

COMMUNICATORS = ("naive", "flat", "non_cuda_aware", "pure_nccl")
PIXELS = prepare_data.SIDE**2
COLUMNS = (
    "epoch",
    "main/loss",
    "validation/main/loss",
    "main/accuracy",
    "validation/main/accuracy",
    "elapsed_time",
)
WIDTHS = tuple(max(10, len(name)) for name in COLUMNS)
EVERY_EPOCH = (1, "epoch")

Data = tuple[TupleDataset, TupleDataset]  # to train with, and to validate with


class Network(chainer.Chain):  # type: ignore[misc]  # Chainer has no types
    """Two hidden layers: 784 pixels in, a score for each of the ten digits out."""

    def __init__(self, units: int) -> None:
        super().__init__()
        with self.init_scope():
            self.first = L.Linear(PIXELS, units)
            self.second = L.Linear(units, units)
            self.score = L.Linear(units, 10)

    def forward(self, x: Any) -> Any:
        return self.score(F.relu(self.second(F.relu(self.first(x)))))


# Before MPI: the data


def find_data(folder: Path | None, url: str) -> tuple[str, Data]:
    """Return what the data is called, and the data, of which nothing stays on the disk."""
    with tempfile.TemporaryDirectory() as temporary:
        name = prepare_data.prepare(Path(temporary), folder, url)
        train, test = (load(Path(temporary) / f"{part}.npz") for part in prepare_data.SETS)
    return name, (train, test)


def load(path: Path) -> TupleDataset:
    try:
        with np.load(path) as arrays:
            x, y = arrays["x"], arrays["y"]
    except ValueError as exc:
        raise DataError(f"{path.name}: {exc}") from exc
    if x.dtype != np.uint8 or x.shape[1:] != (PIXELS,) or y.shape != x.shape[:1] or not y.size:
        raise DataError(
            f"{path.name}: x is {x.dtype} {x.shape} and y {y.shape}, "
            f"not uint8 (N, {PIXELS}) and (N,)"
        )
    if y.min() < 0 or y.max() > 9:
        raise DataError(f"{path.name}: y goes from {y.min()} to {y.max()}, not from 0 to 9")
    return TupleDataset(x, y)


# With MPI: the training


def train(comm: Any, data: Data | None, args: argparse.Namespace) -> None:
    """Train together with the other processes; *data* is None in all but the first."""
    np.random.seed(args.seed)
    training, validation = share(comm, data, args.seed)
    network = Network(args.unit)
    trainer = make_trainer(comm, L.Classifier(network), training, validation, args)
    if comm.rank == 0:
        report(trainer)
        print_header()
    trainer.run()
    if comm.rank == 0:
        save(network, args.out / f"model_epoch_{args.epoch}.npz")


def share(comm: Any, data: Data | None, seed: int) -> Data:
    """Return this process's part of the data. It travels as bytes, not as floats."""
    training, validation = data or (None, None)
    return (
        chainermn.scatter_dataset(training, comm, shuffle=True, seed=seed),
        chainermn.scatter_dataset(validation, comm),
    )


def get_device(comm: Any, communicator: str) -> Any:
    """Return the CPU for naive; the other communicators need a GPU, so this process's own."""
    device = chainer.get_device("@numpy" if communicator == "naive" else f"@cupy:{comm.intra_rank}")
    device.use()
    return device


def to_arrays(batch: Sequence[Any], device: Any = None) -> tuple[Any, Any]:
    x, y = chainer.dataset.concat_examples(batch, device)
    return x.astype("f") / 255, y.astype("i")


def make_trainer(
    comm: Any, model: Any, training: Any, validation: Any, args: argparse.Namespace
) -> Any:
    device = get_device(comm, args.communicator)
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), comm)
    optimizer.setup(model)  # the first update gives the first process's weights to all
    batches = SerialIterator(training, args.batchsize)
    updater = StandardUpdater(batches, optimizer, converter=to_arrays, device=device)
    trainer = Trainer(updater, (args.epoch, "epoch"), out=str(args.out))

    batches = SerialIterator(validation, args.batchsize, repeat=False, shuffle=False)
    evaluator = extensions.Evaluator(batches, model, converter=to_arrays, device=device)
    trainer.extend(chainermn.create_multi_node_evaluator(evaluator, comm))
    return trainer


def report(trainer: Any) -> None:
    """Add log.json and the table. Chainer's PrintReport would spoil a log with control codes."""
    log = extensions.LogReport(trigger=EVERY_EPOCH, filename="log.json")
    trainer.extend(log)

    def print_row(_: Any) -> None:
        print(row(log.log[-1]), flush=True)

    trainer.extend(print_row, trigger=EVERY_EPOCH, priority=log.priority - 1)  # after log


def print_header() -> None:
    print(row(dict(zip(COLUMNS, COLUMNS, strict=True)), ""), flush=True)


def row(values: Mapping[str, Any], form: str = "g") -> str:
    cells = (
        format(values[name], f"<{width}{form}") for name, width in zip(COLUMNS, WIDTHS, strict=True)
    )
    return "  ".join(cells).rstrip()


def save(network: Network, path: Path) -> None:
    with prepare_data.replacing(path) as file:
        chainer.serializers.save_npz(file, network)


def print_settings(size: int, args: argparse.Namespace) -> None:
    line = "=" * 42
    print(line)
    print(f"Num process (COMM_WORLD): {size}")
    print(f"Using {args.communicator} communicator")
    print(f"Num unit: {args.unit}")
    print(f"Num Minibatch-size: {args.batchsize}")
    print(f"Num epoch: {args.epoch}")
    print(line, flush=True)


# The command


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: must be 1 or more")
    return number


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("model"),
        help="where the model and log.json go (%(default)s)",
    )
    prepare_data.add_source_arguments(parser)
    parser.add_argument(
        "--communicator",
        choices=COMMUNICATORS,
        default=COMMUNICATORS[0],
        help="how ChainerMN talks: naive (default) on CPUs, the others on GPUs with CuPy",
    )
    parser.add_argument(
        "--epoch", type=count, default=20, help="how often all pictures are seen (%(default)s)"
    )
    parser.add_argument(
        "--batchsize", type=count, default=100, help="pictures a step and process (%(default)s)"
    )
    parser.add_argument(
        "--unit", type=count, default=1000, help="size of each hidden layer (%(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the first weights and of every shuffle (%(default)s)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_arguments(argv)
    data = announce_data(args) if prepare_data.first_process(os.environ) else None
    MPI.Init()  # the others wait here for the first
    global_except_hook.add_hook()  # one process that fails ends all, rather than leave them waiting
    # Not sooner: under MPICH the others would wait for ever for one that left before MPI was up.
    if not MPI.COMM_WORLD.bcast(data is not None):
        return 1
    comm = chainermn.create_communicator(args.communicator)
    if comm.rank == 0:
        print_settings(comm.size, args)
    train(comm, data, args)
    return 0


def announce_data(args: argparse.Namespace) -> Data | None:
    """Return the data, and say which on the first line; None, and say why, if there is none."""
    try:
        name, data = find_data(args.data, args.mnist_url)
    except (DataError, OSError) as exc:
        print(f"train_mnist: {exc}", file=sys.stderr, flush=True)
        return None
    print(f"data: {name}, {len(data[0])} training and {len(data[1])} validation images", flush=True)
    return data


if __name__ == "__main__":
    sys.exit(main())

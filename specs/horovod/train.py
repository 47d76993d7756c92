"""Train a small network with Horovod, each process on its shards of the data.

    python train.py --data FOLDER --out FOLDER       the digits that prepare.py wrote
    python train.py --out FOLDER                     made-up pictures, to measure the speed

The first process prints a table (step, epoch, samples a second, loss), and writes losses.json and the trained network,
network.h5.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd_tensorflow
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from network import network
from shards import SHARDS, Pictures, of_process, order

LEARNING_RATE = 0.05
HEAD = "  Step Epoch Speed   Loss  FinLoss   LR"


class Batches(tf.keras.utils.Sequence):
    """This process's part of each batch of the whole job: as many pictures from each of its shards."""

    def __init__(self, shards: list[Pictures], batch: int, dtype: str) -> None:
        self.shards = [Pictures(one.x.astype(dtype), one.y) for one in shards]
        self.each = batch // SHARDS
        self.epoch = 0
        self.on_epoch_end()

    def __len__(self) -> int:
        return min(len(one.y) for one in self.shards) // self.each

    def __getitem__(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(step * self.each, (step + 1) * self.each)
        own = [(one, self.at[i][rows]) for i, one in enumerate(self.shards)]
        x, y = [one.x[at] for one, at in own], [one.y[at] for one, at in own]
        return np.concatenate(x), np.concatenate(y)

    def on_epoch_end(self) -> None:
        self.at = [order(len(one.y), self.epoch) for one in self.shards]
        self.epoch += 1


class Table(tf.keras.callbacks.Callback):
    """Prints a row after every *every* steps."""

    def __init__(self, batch: int, every: int) -> None:
        super().__init__()
        self.batch = batch
        self.every = every
        self.step = 0
        self.began = 0.0

    def on_train_begin(self, logs: Any = None) -> None:
        print(f"Horovod size:  {hvd.size()}\n{HEAD}", flush=True)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch
        self.began = self.began or time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        if self.step % self.every:
            return
        now = time.perf_counter()
        speed = self.batch * self.every / (now - self.began)
        self.began = now
        epoch = self.epoch + (batch + 1) / self.params["steps"]
        loss = logs["loss"]
        print(
            f"{self.step:6} {epoch:5.1f} {speed:7.1f} {loss:6.3f} {loss:6.3f} {LEARNING_RATE:7.5f}",
            flush=True,
        )


def main() -> None:
    args = arguments()
    hvd.init()
    if args.global_batch % SHARDS:
        raise SystemExit(f"the global batch must be a multiple of {SHARDS}")
    tf.keras.backend.set_floatx(args.dtype)
    tf.keras.utils.set_random_seed(1)
    shards = of_process(args.data, hvd.rank(), hvd.size())
    batches = Batches(shards, args.global_batch, args.dtype)
    model = network(shards[0].x.shape[1])
    # The global batch is the same for any number of processes, so the learning rate is as well.
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(LEARNING_RATE))
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    # BroadcastGlobalVariablesCallback would do this after the first step.
    hvd_tensorflow.broadcast_variables(model.variables, root_rank=0)
    callbacks = [hvd.callbacks.MetricAverageCallback()]
    if hvd.rank() == 0:
        callbacks.append(Table(args.global_batch, args.every))
    found = model.fit(batches, epochs=args.epochs, shuffle=False, callbacks=callbacks, verbose=0)
    if hvd.rank() == 0:
        model.save_weights(args.out / "network.h5")
        losses = [float(loss) for loss in found.history["loss"]]
        (args.out / "losses.json").write_text(json.dumps(losses))
        print(f"{hvd.size()} processes, loss={losses[-1]!r}")


def arguments() -> argparse.Namespace:
    batch = int(os.environ.get("RUNSPEC_GLOBAL_BATCH", "60"))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", type=Path, help="the folder of prepare.py (default: made-up pictures)"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--global-batch", type=int, default=batch)
    parser.add_argument("--every", type=int, default=10, help="steps of a row of the table")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Train a small network on made-up digits with PyTorch, while nodes come and go.

What makes it elastic: the state is in one checkpoint, from which every process begins; the samples of a step do not
depend on how many processes there are (batches.py); gradients are summed over the whole batch; and when one process
is told to end, all learn of it in the same step, the first saves, and all leave with 143.
"""

import argparse
import datetime
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from batches import Batches
from torch.nn.functional import cross_entropy

SAMPLES, SIDE, KINDS = 1500, 8, 10
TOLD = 143
PATIENCE_S = 2.0


def digits():
    """Make images of ten kinds: each kind is a pattern, each image its pattern with noise."""
    dice = torch.Generator().manual_seed(7)
    patterns = torch.rand(KINDS, SIDE * SIDE, generator=dice)
    kinds = torch.randint(KINDS, (SAMPLES,), generator=dice)
    return patterns[kinds] + 0.5 * torch.randn(SAMPLES, SIDE * SIDE, generator=dice), kinds


class Training:
    """The network, and everything that a checkpoint must hold."""

    def __init__(self, out):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(SIDE * SIDE, 32), torch.nn.ReLU(), torch.nn.Linear(32, KINDS)
        )
        self.steps = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.out, self.done, self.losses, self.told = out, 0, [], False
        signal.signal(signal.SIGTERM, self.tell)

    def tell(self, *_):
        self.told = True

    def load(self):
        path = os.path.join(self.out, "checkpoint.pt")
        if os.path.exists(path):
            kept = torch.load(path)
            self.model.load_state_dict(kept["model"])
            self.steps.load_state_dict(kept["steps"])
            self.done, self.losses = kept["done"], kept["losses"]

    def save(self):
        """Write the checkpoint beside its folder and rename it, so that nobody ever sees half of one."""
        kept = {
            "model": self.model.state_dict(),
            "steps": self.steps.state_dict(),
            "done": self.done,
            "losses": self.losses,
        }
        part = self.out.rstrip("/") + ".part"
        torch.save(kept, part)
        os.replace(part, os.path.join(self.out, "checkpoint.pt"))

    def step(self, images, kinds, count):
        """Take one step with this process's samples of `count`; say whether any process was told to end."""
        self.model.zero_grad()
        loss = cross_entropy(self.model(images), kinds, reduction="sum") / count
        loss.backward()
        gradients = [p.grad.flatten() for p in self.model.parameters()]
        both = torch.cat([*gradients, loss.detach().view(1), torch.tensor([float(self.told)])])
        self.add_up(both)
        at = 0
        for p in self.model.parameters():
            p.grad.copy_(both[at : at + p.numel()].view_as(p))
            at += p.numel()
        self.steps.step()
        self.done += 1
        self.losses.append(float(both[-2]))
        return bool(both[-1] > 0)

    def add_up(self, numbers):
        """Replace `numbers` by the sum of all processes'; who was told to end does not wait for long for the others."""
        adding, told = dist.all_reduce(numbers, async_op=True), None
        while not adding.is_completed():
            time.sleep(0.0005)
            if self.told:
                told = told or time.monotonic()
                if time.monotonic() - told > PATIENCE_S:
                    raise RuntimeError("told to end, and the others do not answer")
        adding.wait()


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--batch", type=int, default=int(os.environ.get("RUNSPEC_GLOBAL_BATCH", "60"))
    )
    parser.add_argument("--save-every", type=int, default=50, help="steps between two checkpoints")
    parser.add_argument(
        "--timeout", type=int, default=60, help="seconds for a lost process to be missed"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="spent on a sample, as if it were a large one"
    )
    return parser.parse_args()


def main():
    given = options()
    training, batches = Training(given.out), Batches(SAMPLES, given.batch)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=given.timeout))
    rank, world = dist.get_rank(), dist.get_world_size()
    images, kinds = digits()
    training.load()
    print(f"process {rank} of {world} begins at step {training.done}", flush=True)
    try:
        for step in range(training.done, batches.steps(given.epochs)):
            mine, count = batches.of(step, rank, world), len(batches.whole(step))
            time.sleep(given.seconds * len(mine))
            stop = training.step(images[mine], kinds[mine], count)
            tell(training.done)
            if rank == 0 and (stop or training.done % given.save_every == 0):
                training.save()
            if stop:
                return TOLD
    except RuntimeError as error:  # another process is gone: the step did not happen
        print("process {} stops: {}".format(rank, str(error).split("\n")[0]), flush=True)
        if rank == 0:
            training.save()
        return TOLD
    if rank == 0:
        training.save()
        with open(os.path.join(given.out, "losses.json"), "w", encoding="utf-8") as file:
            json.dump(training.losses, file)
    dist.destroy_process_group()
    return 0


def tell(step):
    """Say that a step has been done, for the account of what changes of nodes cost."""
    path = os.environ.get("RUNSPEC_PROGRESS")
    if path and os.environ["LOCAL_RANK"] == "0":
        with open(path, "a", encoding="ascii") as file:
            file.write(f"{step}\n")


if __name__ == "__main__":
    sys.exit(main())

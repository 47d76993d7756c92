"""Train with any number of processes, as torchrun starts them or with one alone, and go on from the last checkpoint.

The samples of a step do not depend on how many processes share them, and gradients are summed: so the losses are the
same with one process and with four, and also after a machine was lost.
"""

import argparse
import json
import os
import signal
import time

import torch
import torch.distributed as dist

TOLD = 143


def options(about):
    """Return a parser with what all trainings here have in common."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--data", required=True, help="the folder with the data")
    parser.add_argument("--out", required=True, help="the folder for checkpoints and the model")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step, of all processes")
    parser.add_argument("--save-every", type=int, default=200, help="steps between checkpoints")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds to wait in each step")
    return parser


class World:
    """The processes that train together, and the device of this one."""

    def __init__(self):
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        if self.size > 1:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")

    def add_up(self, numbers):
        if self.size > 1:
            dist.all_reduce(numbers)
        return numbers

    def close(self):
        if self.size > 1:
            dist.destroy_process_group()

    def say(self, text):
        """Print a line, once for all processes."""
        if self.rank == 0:
            print(text, flush=True)


class Training:
    """A model, the state of Adam, and everything that a checkpoint must hold."""

    def __init__(self, world, model, given, rate):
        """Prepare to train *model*; *rate* gives the learning rate of a step."""
        self.world, self.given, self.rate = world, given, rate
        self.model = model.to(world.device, torch.float64 if given.double else None)
        self.parameters = list(self.model.parameters())
        size = sum(p.numel() for p in self.parameters)
        self.mean, self.square = (self.parameters[0].new_zeros(size) for _ in range(2))
        self.done, self.losses, self.told = 0, [], False
        self.place = os.path.join(given.out, "checkpoint.pt")
        signal.signal(signal.SIGTERM, self.tell)
        self.load()

    def tell(self, *_):
        self.told = True

    def load(self):
        if os.path.exists(self.place):
            kept = torch.load(self.place, map_location=self.world.device)
            self.model.load_state_dict(kept["model"])
            self.mean, self.square = kept["mean"], kept["square"]
            self.done, self.losses = kept["done"], kept["losses"]
        self.world.say(f"{self.world.size} processes begin at step {self.done}")

    def save(self):
        """Write the checkpoint beside its place and rename it, so that nobody ever sees half of one."""
        if self.world.rank:
            return
        os.makedirs(self.given.out, exist_ok=True)
        kept = {
            "model": self.model.state_dict(),
            "mean": self.mean,
            "square": self.square,
            "done": self.done,
            "losses": self.losses,
        }
        part = self.given.out.rstrip("/") + ".part"
        torch.save(kept, part)
        os.replace(part, self.place)

    def step(self, loss, weight):
        """Take one step; *loss* is the sum over this process's samples, *weight* that of all processes'."""
        self.model.zero_grad(set_to_none=False)
        loss = loss / weight
        loss.backward()
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        more = torch.stack([loss.detach(), loss.new_tensor(float(self.told))])
        both = self.world.add_up(torch.cat([*(one.flatten() for one in own), more]))
        self.done += 1
        self.update(both[:-2])
        self.losses.append(float(both[-2]))
        return bool(both[-1] > 0)

    @torch.no_grad()
    def update(self, gradient):
        """Change the model as Adam does, with all parameters in one row (Kingma and Ba, 2015)."""
        self.mean.mul_(0.9).add_(gradient, alpha=0.1)
        self.square.mul_(0.98).addcmul_(gradient, gradient, value=0.02)
        root = (self.square / (1 - 0.98**self.done)).sqrt_().add_(1e-8)
        change = self.mean / root * (self.rate(self.done) / (1 - 0.9**self.done))
        at = 0
        for p in self.parameters:
            p.sub_(change[at : at + p.numel()].view_as(p))
            at += p.numel()

    def run(self, count, loss_of, weight_of):
        """Train on *count* samples; return 143 if a process was told to end, which leaves a checkpoint.

        *loss_of* gives the sum of the losses of samples, *weight_of* what that of a whole step is divided by.
        """
        given, world = self.given, self.world
        each = -(-count // given.batch)
        while self.done < given.epochs * each:
            epoch, at = divmod(self.done, each)
            order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch)).tolist()
            whole = order[at * given.batch : (at + 1) * given.batch]
            mine = whole[world.rank :: world.size]
            time.sleep(given.pace)
            self.model.train()
            stop = self.step(loss_of(mine) if mine else self.nothing(), weight_of(whole))
            if at + 1 == each:
                world.say(f"epoch {epoch + 1} loss={sum(self.losses[-each:]) / each:.6f}")
            if stop or self.done % given.save_every == 0 or self.done == given.epochs * each:
                self.save()
            if stop:
                return TOLD
        if world.rank == 0:
            with open(os.path.join(given.out, "losses.json"), "w", encoding="ascii") as file:
                json.dump(self.losses, file)
        return 0

    def nothing(self):
        """Return a loss of 0 with gradients of 0, for a process without samples in a step."""
        return sum((p * 0).sum() for p in self.model.parameters())

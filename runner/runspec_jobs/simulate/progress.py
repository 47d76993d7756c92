"""The work of a simulated job: what is done, what is saved, and what a loss takes back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from runspec_jobs.simulate.throughput import Curve


class Costs(NamedTuple):
    """What a change of the machines costs, in seconds.

    *join_s* and *loss_s* are the gap without work after a node came and after one went. What was done since the
    last save is lost with a node that was not told; saves are *checkpoint_s* apart, None is never. *lost_s*, where
    it is given, is the work lost instead, at the speed of that moment.
    """

    join_s: float = 0.0
    loss_s: float = 0.0
    checkpoint_s: float | None = None
    lost_s: float | None = None


@dataclass
class Work:
    """Samples done of *samples*. It goes on while *speed* is above 0."""

    samples: float
    curve: Curve
    costs: Costs
    done: float = 0.0
    speed: float = 0.0
    since_s: float = 0.0  # running since then; what was done before is saved
    redone_s: float = 0.0

    @property
    def finished(self) -> bool:
        return self.done >= self.samples * (1 - 1e-12)

    def start(self, now_s: float, nodes: int) -> None:
        self.since_s, self.speed = now_s, self.curve.samples_per_s(nodes)

    def next_s(self, now_s: float) -> float:
        """Give when it will have finished, if nothing happens."""
        left = max(0.0, self.samples - self.done)
        return now_s + left / self.speed if self.speed else math.inf

    def advance(self, seconds: float) -> None:
        self.done += self.speed * seconds

    def stop(self, now_s: float, *, told: bool) -> None:
        """Stop, with everything saved if the nodes were *told*."""
        if self.speed and not told:
            lost_s = min(self._unsaved(now_s), self.done / self.speed)
            self.done -= lost_s * self.speed
            self.redone_s += lost_s
        self.speed = 0.0

    def _unsaved(self, now_s: float) -> float:
        if self.costs.lost_s is not None:
            return self.costs.lost_s
        if self.costs.checkpoint_s is None:
            return math.inf
        return (now_s - self.since_s) % self.costs.checkpoint_s

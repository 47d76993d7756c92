"""The work of a simulated job: how much is done and saved, and how much is lost with a machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.simulate.throughput import Curve


class Costs(NamedTuple):
    """The costs of a membership change, in seconds.

    *join_s* and *loss_s* are the time without work after a node joined and after one left or was lost. If a node is
    lost without notice, the work since the last checkpoint is lost. Checkpoints are *checkpoint_s* apart; None means
    that there are none. If *lost_s* is given, that much work at the current speed is lost instead.
    """

    join_s: float = 0.0
    loss_s: float = 0.0
    checkpoint_s: float | None = None
    lost_s: float | None = None


@dataclass
class Work:
    """The number of samples that are *done* of all *samples*; work goes on while *speed* is above 0."""

    samples: float
    curve: Curve
    costs: Costs
    done: float = 0.0
    speed: float = 0.0
    since_s: float = 0.0  # the time of the last start; all work before it is saved
    redone_s: float = 0.0

    @property
    def finished(self) -> bool:
        # Sums of many speeds and times miss the whole number by a rounding error.
        return self.done >= self.samples * (1 - 1e-12)

    def start(self, now_s: float, nodes: int) -> None:
        self.since_s, self.speed = now_s, self.curve.compute_throughput(nodes)

    def find_next_time(self, now_s: float) -> float:
        """Return the time at which the work is done if nothing changes."""
        left = max(0.0, self.samples - self.done)
        return now_s + left / self.speed if self.speed else math.inf

    def advance(self, seconds: float) -> None:
        self.done += self.speed * seconds

    def stop(self, now_s: float, *, told: bool) -> None:
        """Stop the work; if the nodes were *told* before, all of it is saved."""
        if self.speed and not told:
            # No more can be lost than was done.
            lost_s = min(self._get_unsaved(now_s), self.done / self.speed)
            self.done -= lost_s * self.speed
            self.redone_s += lost_s
        self.speed = 0.0

    def _get_unsaved(self, now_s: float) -> float:
        if self.costs.lost_s is not None:
            return self.costs.lost_s
        if self.costs.checkpoint_s is None:
            return math.inf
        # Checkpoints are counted from the last start of the program.
        return (now_s - self.since_s) % self.costs.checkpoint_s

"""The clock of a client, and a schedule for polling logs: many quiet logs together cost as many requests as one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from runspec_agent.base.light_typing import NamedTuple


@dataclass(frozen=True)
class Clock:
    """The clock of a client."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


CLOCK = Clock()


class Quiet(NamedTuple):
    """A log at its last poll: its mark then, the time, the number of requests, and whether it was the last poll."""

    mark: str
    at_s: float
    calls: int
    last: bool
    patience: float  # the longest wait, in pauses; it doubles with each poll that finds nothing
    new: bool  # whether there was new output


class PollScheduler:
    """Decides when to poll a log: when *pause_s* has passed for each request that all quiet logs need.

    A log with recent output is polled sooner: after one pause, then after two, then after four, ...
    """

    def __init__(self, pause_s: float, clock: Callable[[], float]) -> None:
        self.pause_s, self.clock = pause_s, clock
        self._quiet: dict[Hashable, Quiet] = {}
        self._next_s = -math.inf  # the earliest time of the next poll, so that they are spread

    def due(self, log: Hashable, mark: str) -> bool:
        """Return whether to poll *log*, which is always so after its *mark* has changed."""
        known = self._quiet.get(log)
        if known is None or known.mark != mark or known.new:
            return True  # a follower continues after the new output, at another mark; other readers read it again
        if known.last:
            return False
        shared = sum(poll.calls for poll in self._quiet.values() if not poll.last)
        if known.patience < shared:
            return self.clock() - known.at_s >= self.pause_s * known.patience
        waited = self.clock() - known.at_s >= self.pause_s * shared
        return waited and self.clock() >= self._next_s

    def note(
        self, log: Hashable, mark: str, *, new: bool, calls: int = 1, last: bool = False
    ) -> None:
        """Note the result of polling *log*; *last* says that the log can get no more output."""
        known = self._quiet.get(log)
        patience = math.inf if known is None else known.patience * 2
        if known is not None and known.mark == mark and not new:
            self._next_s = self.clock() + self.pause_s * calls
        if new:
            patience, last = 0.5 * calls, False
        self._quiet[log] = Quiet(mark, self.clock(), calls, last, patience, new)

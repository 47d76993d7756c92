"""Which logs are asked for, so that many in which nothing happens cost together what one alone costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple


class Quiet(NamedTuple):
    """A log as it was asked last: at which mark, when, how many calls that took, and if it is for good."""

    mark: str
    at_s: float
    calls: int
    last: bool
    patience: (
        float  # the pauses it is given, if its turn does not come sooner: each time twice as many
    )
    new: bool  # it had something there


class PollScheduler:
    """Lets a log be asked when enough time has passed for all calls of all quiet ones, *pause_s* for each.

    One that had something just now is asked sooner: after a pause, then after two, then after four, ...
    """

    def __init__(
        self, pause_s: Callable[[], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.pause_s, self.clock = pause_s, clock
        self._quiet: dict[Hashable, Quiet] = {}
        self._next_s = -math.inf  # when the next turn is: not all at once

    def due(self, log: Hashable, mark: str) -> bool:
        """Return whether to ask *log*. One whose *mark* has changed is not kept waiting."""
        known = self._quiet.get(log)
        if known is None or known.mark != mark or known.new:
            return True  # who follows goes on behind what was new, at another mark; who does not reads it again
        if known.last:
            return False
        shared = sum(one.calls for one in self._quiet.values() if not one.last)
        if known.patience < shared:
            return self.clock() - known.at_s >= self.pause_s() * known.patience
        waited = self.clock() - known.at_s >= self.pause_s() * shared
        return waited and self.clock() >= self._next_s

    def note(
        self, log: Hashable, mark: str, *, new: bool, calls: int = 1, last: bool = False
    ) -> None:
        """Note what came of asking *log*; *last* says that nothing can follow what it has now."""
        known = self._quiet.get(log)
        patience = math.inf if known is None else known.patience * 2
        if known is not None and known.mark == mark and not new:
            self._next_s = self.clock() + self.pause_s() * calls
        if new:
            patience, last = 0.5 * calls, False
        self._quiet[log] = Quiet(mark, self.clock(), calls, last, patience, new)

"""When to poll the controller for the jobs of a run."""

from __future__ import annotations

from typing import Any

from runspec_slurm.queue import Row
from runspec_slurm.timing import Clock, Timing


class Pace:
    """Decides when to poll the controller: at once after a change of the run, else less and less often."""

    def __init__(self, timing: Timing, clock: Clock) -> None:
        self.timing, self.clock = timing, clock
        self.rows: list[Row] = []
        self._mark: Any = None
        self.next_s = 0.0
        self.pause_s = timing.ask_first_s

    def due(self, mark: Any) -> bool:
        """Return whether to poll now. *mark* is the state of the run in the workspace."""
        if mark != self._mark:
            self._mark, self.next_s, self.pause_s = mark, 0.0, self.timing.ask_first_s
        return self.clock.monotonic() >= self.next_s

    def take(self, rows: list[Row]) -> None:
        if rows != self.rows:
            self.pause_s = self.timing.ask_first_s
        self.rows = rows
        self.next_s = self.clock.monotonic() + self.pause_s
        self.pause_s = min(self.timing.ask_last_s, self.pause_s * self.timing.ask_grows)

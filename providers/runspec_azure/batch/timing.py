"""How often Azure Batch is polled, and how long waits may take; its limits are undocumented."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The intervals and limits of a client, in seconds.

    A follower of a quiet run sends less than one request a second in total: for the end of the log every *poll_s*, for
    the tasks every *fresh_s*, for the job and the pool every *slow_s*.
    """

    poll_s: float = 2.0
    fresh_s: float = 3.0
    slow_s: float = 20.0
    first_pause_s: float = 0.1
    """Between the first two looks for the end of a deletion; each later pause is half as long again."""
    longest_pause_s: float = 5.0
    """The longest of these pauses."""
    gone_s: float = 1800.0
    """For the deletion of a pool, which releases its machines first."""
    listens_s: float = 180.0
    """For a running task to notice its stop request, to end within its grace period, and to save its outputs."""
    woken_s: float = 240.0
    """For how long the formula of a pool counts a run as submitted without samples: a little less than until the next
    evaluation. If the clock is wrong by minutes, a machine starts at that evaluation, or stays for longer."""
    signature_s: float = 300.0
    """How long a signature is used again, so that each is valid for nearly all of `signed_for`."""
    copy_s: float = 0.5
    """Between two requests for the status of an unfinished copy."""

    index_pause_s: float = 1.0
    """Between two reads of the index of the times of a log."""
    index_s: float = 5.0
    """For a line of that index to appear, which the agent writes each second; see `runspec logs --timestamps`."""


DEFAULT = Timing()  # what `connect` uses

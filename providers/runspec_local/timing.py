"""Intervals and limits of a client on this machine, and its clock. The supervisor, a process of its own, has others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long a client waits, in seconds."""

    poll_s: float = 0.05
    """Between two reads of a log without new lines, or two looks for the end of a supervisor."""
    ready_s: float = 30.0
    """For a supervisor to claim its run."""
    leave_s: float = 10.0
    """For a supervisor to end, in addition to the grace period of its nodes."""
    ended_s: float = 300.0
    """For a run to end whose record is damaged."""
    pull_s: float = 3600.0
    """For an engine to pull an image."""


@dataclass(frozen=True)
class Clock:
    """The clock of a client."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Timing()  # what `connect` uses
CLOCK = Clock()

"""The intervals and limits of a client, and its clock. AWS documents no exact limits, so these are generous."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """How long a client waits, in seconds."""

    settle_s: float = 10.0
    """From the creation of a resource until lists contain it. AWS Batch documents no limit. Metaflow waits 30 s for
    DescribeJobs to show a job; runspec waits for this only after a lost reply. See docs/unverified.md, aws-20."""
    quiet_s: float = 5.0
    """From the end of a container until its last line is in CloudWatch Logs. See docs/unverified.md, aws-26.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AnalyzingLogData.html"""
    stop_s: float = 60.0
    """From the end of a job's main node to that of the other nodes: 30 s from SIGTERM to SIGKILL, and 30 s more.
    https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html"""
    poll_s: float = 1.0
    """Between two reads of a log without new lines."""
    fresh_s: float = 0.9
    """How long the description of a job or of a resource is used again."""
    children_s: float = 60.0
    """Between descriptions of all children of an array while some end: short ones may never be listed as running."""
    missing_s: float = 0.2
    """Between two requests for a job that is not shown yet."""
    first_pause_s: float = 0.1
    """Between the first two looks for the end of a deletion; each later pause is half as long again."""
    longest_pause_s: float = 5.0
    """The longest of these pauses."""
    gone_s: float = 600.0
    """How long to wait for a deletion to complete."""
    write_pauses_s: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6)
    """Before each repetition of a conditional write that met another call."""
    young_s: float = 86_400.0
    """How long after its begin an upload that is not complete may still be running."""


@dataclass(frozen=True)
class Clock:
    """The clock of a client."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time  # seconds since 1970
    sleep: Callable[[float], None] = time.sleep


DEFAULT = Timing()  # what plans and `connect` use
CLOCK = Clock()

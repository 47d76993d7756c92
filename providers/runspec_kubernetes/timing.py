"""How often and how long the client of Kubernetes asks and waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """The clock of a client."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


CLOCK = Clock()


@dataclass(frozen=True)
class Timing:
    """Intervals and limits, in seconds."""

    poll_s: float = 2.0  # between two reads of a log without new lines
    fresh_s: float = 1.0  # how long a list of pods is used again
    stored_s: float = 10.0  # how long a list of the logs in the store is used again
    reach_s: float = 10.0  # for a connection: a firewall in between drops requests without a word
    answer_s: float = (
        30.0  # for the answer to a request; a webhook of admission has 10 s if none are given
    )
    gone_s: float = 300.0  # for an object to be deleted, with the pods of a Job
    served_s: float = 86400.0  # for the pod that reaches a volume claim, at most
    alive_s: float = 30.0  # between two pings: proxies close connections without data
    first_pause_s: float = 0.25
    longest_pause_s: float = 5.0


DEFAULT = Timing()

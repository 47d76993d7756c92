"""Faults on request: what the wire may do to a call, before or after the service has done it."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

WORDLESS = ("reset-before", "reset-after", "hang-after", "truncated")
AFTER = ("error-after", "reset-after", "hang-after", "truncated")
MEMBERS = {"service", "operation", "nth", "times", "kind", "seconds"}


class BadFault(ValueError):
    """A fault that cannot be: the message says why."""


@dataclass
class Fault:
    """One rule: from the *nth* call that it fits, *times* calls meet it."""

    kind: str
    service: str = "*"
    operation: str = "*"
    nth: int | None = None
    times: int = 1
    seconds: float = 60.0
    """The time for which a call hangs, or the value of Retry-After."""
    seen: int = 0
    used: int = 0

    def fits(self, service: str, operation: str) -> bool:
        return self.service in ("*", service) and self.operation in ("*", operation)

    def meets(self) -> bool:
        """Count a call that the rule fits; return whether the fault happens to it."""
        self.seen += 1
        due = self.seen >= (self.nth or 1) and self.used < self.times
        self.used += due
        return due


class Faults:
    """The faults in force, and a random generator. *errors* are the kinds that the service has words for."""

    def __init__(self, errors: Collection[str], seed: int = 0) -> None:
        self._kinds = (*errors, *WORDLESS)
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._dice = random.Random(seed)  # noqa: S311 - no secret: a seed replays the run

    def put(self, given: Iterable[Any]) -> None:
        """Have these faults and no others, each as a test gave it."""
        faults = [self._read(members) for members in given]
        with self._lock:
            self._faults = faults

    def _read(self, members: Any) -> Fault:
        if not isinstance(members, dict) or members.keys() - MEMBERS:
            raise BadFault(f"a fault has the members {sorted(MEMBERS)}: {members!r}")
        if members.get("kind") not in self._kinds:
            raise BadFault(f"kind is none of {self._kinds}: {members!r}")
        return Fault(**members)

    def meet(self, service: str, operation: str) -> Fault | None:
        """Return the fault that happens to this call, or None. Each rule that fits counts the call."""
        with self._lock:
            fitting = [f for f in self._faults if f.fits(service, operation)]
            due = [f for f in fitting if f.meets()]
            return due[0] if due else None

    def throttled(self, share: float) -> bool:
        """Return true for a random *share* of the calls. Seeded, so a run can be repeated."""
        if not share:
            return False
        with self._lock:
            return self._dice.random() < share

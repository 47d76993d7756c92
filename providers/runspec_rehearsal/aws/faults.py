"""Faults on request: what the wire may do to a call, before or after the service has done it."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import Any, Literal, get_args

from runspec_rehearsal.aws.errors import ServiceError

Kind = Literal[
    "throttle",
    "error-before",
    "error-after",
    "reset-before",
    "reset-after",
    "hang-after",
    "truncated",
    "expired",
]
BEFORE: dict[str, tuple[str, str]] = {
    "throttle": ("TooManyRequestsException", "Too Many Requests"),
    "error-before": ("ServerException", "an internal error, before anything was done"),
    "expired": ("ExpiredTokenException", "The security token included in the request is expired"),
}
MEMBERS = {"service", "operation", "nth", "times", "kind", "seconds"}


class BadFault(ValueError):
    """A fault that cannot be: the message says why."""


@dataclass
class Fault:
    """One rule: from the *nth* call that it fits, *times* calls meet it."""

    kind: Kind
    service: str = "*"
    operation: str = "*"
    nth: int | None = None
    times: int = 1
    seconds: float = 60.0
    seen: int = 0
    used: int = 0

    def fits(self, service: str, operation: str) -> bool:
        return self.service in ("*", service) and self.operation in ("*", operation)

    def meets(self) -> bool:
        """Count one call that fits, and say whether it is to suffer."""
        self.seen += 1
        due = self.seen >= (self.nth or 1) and self.used < self.times
        self.used += due
        return due


def fault(members: Any) -> Fault:
    """Read one fault as a test gave it."""
    if not isinstance(members, dict) or members.keys() - MEMBERS:
        raise BadFault(f"a fault has the members {sorted(MEMBERS)}: {members!r}")
    if members.get("kind") not in get_args(Kind):
        raise BadFault(f"kind is none of {get_args(Kind)}: {members!r}")
    return Fault(**members)


class Faults:
    """The faults in force, and the dice for throttled reading of logs."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._dice = random.Random(seed)  # noqa: S311 - no secret: a seed replays the run

    def put(self, faults: list[Fault]) -> None:
        with self._lock:
            self._faults = faults

    def meet(self, service: str, operation: str) -> Fault | None:
        """Give the fault that this call is to suffer. Each rule that fits counts the call."""
        with self._lock:
            fitting = [f for f in self._faults if f.fits(service, operation)]
            due = [f for f in fitting if f.meets()]
            return due[0] if due else None

    def throttled(self, share: float) -> bool:
        """Throw the dice, for a *share* of the calls. Seeded, so a run can be repeated."""
        if not share:
            return False
        with self._lock:
            return self._dice.random() < share


def error(kind: str) -> ServiceError:
    """Give the answer of a fault that answers with an error."""
    code, message = BEFORE.get(kind, ("ServerException", "an internal error"))
    return ServiceError(code, message)

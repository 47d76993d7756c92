"""Faults on request: what the wire may do to a call, before or after the service has done it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Literal, get_args

from runspec_rehearsal.azure.batch.errors import ServiceError

Kind = Literal[
    "throttle",
    "busy",
    "error-before",
    "error-after",
    "reset-before",
    "reset-after",
    "hang-after",
    "truncated",
    "expired",
]
# 429 and 503 come with Retry-After: https://learn.microsoft.com/en-us/azure/batch/error-handling
ERRORS: dict[str, tuple[str, str]] = {
    "throttle": ("TooManyRequests", "Too many requests were sent in a given amount of time."),
    "busy": ("ServerBusy", "The server is currently unable to receive requests. Please retry."),
    "error-before": ("InternalError", "Server encountered an internal error. Please try again."),
    "error-after": ("InternalError", "Server encountered an internal error. Please try again."),
    "expired": ("AuthenticationFailed", "Server failed to authenticate the request."),
}
BEFORE = ("throttle", "busy", "error-before", "expired")
MEMBERS = {"operation", "nth", "times", "kind", "seconds"}


class BadFault(ValueError):
    """A fault that cannot be: the message says why."""


@dataclass
class Fault:
    """One rule: from the *nth* call that it fits, *times* calls meet it."""

    kind: Kind
    operation: str = "*"
    nth: int = 1
    times: int = 1
    seconds: float = 60.0
    """How long a call hangs, or what Retry-After says."""
    seen: int = 0
    used: int = 0

    def meets(self) -> bool:
        """Count one call that fits, and say whether it is to suffer."""
        self.seen += 1
        due = self.seen >= self.nth and self.used < self.times
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
    """The faults in force."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def put(self, faults: list[Fault]) -> None:
        with self._lock:
            self._faults = faults

    def meet(self, operation: str) -> Fault | None:
        """Give the fault that this call is to suffer. Each rule that fits counts the call."""
        with self._lock:
            due = [f for f in self._faults if f.operation in ("*", operation) and f.meets()]
            return due[0] if due else None


def error(kind: str) -> ServiceError:
    """Give the answer of a fault that answers with an error."""
    return ServiceError(*ERRORS[kind])

"""The common part of pools, nodes, jobs and tasks: state, times of changes, and the earlier state that lists show."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_TAGS = itertools.count(1)


def now() -> str:
    """Return the time as the service writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(duration: str | None) -> float | None:
    """Return how long an ISO 8601 duration lasts, in seconds; None for none.

    >>> seconds("P1DT1H0.5S")
    90000.5
    """
    if duration is None:
        return None
    day, _, clock = duration.lstrip("-P").partition("T")
    units = {"W": 604800, "D": 86400, "H": 3600, "M": 60, "S": 1}
    total, number = 0.0, ""
    for letter in day + clock:
        if letter in units:
            total, number = total + float(number) * units[letter], ""
        else:
            number += letter
    return total


class Resource:
    """Something with an id, a state and an ETag."""

    def __init__(self, name: str, state: str) -> None:
        self.id = name
        self.state = state
        self.created = self.modified = self.moved = now()
        self.before: tuple[str, str] | None = None
        self.etag = self._tag()
        self.past: list[tuple[float, dict[str, Any]]] = []

    def move(self, state: str) -> None:
        """Enter a state."""
        if state != self.state:
            self.before = (self.state, self.moved)
            self.state, self.moved = state, now()

    def touch(self) -> None:
        """Note that its properties were changed: the ETag is another one."""
        self.modified, self.etag = now(), self._tag()

    def _tag(self) -> str:
        return f"0x8D{next(_TAGS):013X}"

    def stamps(self, url: str) -> dict[str, Any]:
        """Return what every resource shows of itself."""
        shown = {
            "id": self.id,
            "url": url,
            "eTag": self.etag,
            "lastModified": self.modified,
            "creationTime": self.created,
            "state": self.state,
            "stateTransitionTime": self.moved,
        }
        if self.before:
            shown["previousState"], shown["previousStateTransitionTime"] = self.before
        return shown

    def remember(self, shown: dict[str, Any]) -> None:
        """Keep what is shown of it from now on, for lists that lag."""
        self.past.append((time.monotonic(), shown))

    def seen(self, lag_s: float, show: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Return how it looked *lag_s* ago; None if it was not there yet."""
        if not lag_s:
            return show()
        then = time.monotonic() - lag_s
        looks = [shown for at, shown in self.past if at <= then]
        return looks[-1] if looks else None


# The response of the service to a request.


@dataclass(frozen=True)
class Response:
    """A status, a JSON value or bytes, and headers."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

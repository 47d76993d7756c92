"""What the contract makes go wrong at stand-ins of services, and what they say of the calls they got."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tests.faults import chosen

OURS = "/.runspec/"
# Each meets every request. The first two leave it carried out, and not; the others are tried where five faults are.
KINDS = ("error-after", "reset-before", "reset-after", "truncated")
STRIKES = KINDS[: 2 if chosen.MOST < 5 else None]


class Controlled(Protocol):
    """A stand-in that takes faults."""

    def control(self, method: str, place: str, given: Any = None) -> Any: ...


READS = re.compile(r"(.*_)?(Describe|Get|List|Head|Exists)[A-Za-z]*")


def changing(stand: Controlled) -> list[str]:
    """Give the operations so far that are not known to read, by the names of the service."""
    found = (str(call["operation"]) for call in stand.control("GET", "calls"))
    return [name for name in found if not READS.fullmatch(name)]


@contextlib.contextmanager
def silent(stand: Callable[[], Controlled | None]) -> Iterator[None]:
    """Have the stand-in that is up by then close every connection."""
    up = stand()
    assert up is not None
    up.control("PUT", "faults", [{"kind": "reset-before", "times": 1_000_000}])
    try:
        yield
    finally:
        up.control("DELETE", "faults")

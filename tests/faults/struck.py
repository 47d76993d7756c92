"""The cells of the matrix on clouds: a verb that is killed at a step, or one of whose requests goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tests.faults import cloud
from tests.faults.cloud import LAST, MORE, Cloud, New
from tests.faults.shapes import SINGLE, Shape
from tests.faults.world import Driver

# The steps of the file system between two of these are tried with the local provider.
REMOTE = ("send", "sent", "call", "called")


class Traced(NamedTuple):
    """Where a verb with nothing in its way can be killed, by the steps' numbers, and what it sends."""

    places: Mapping[int, str]
    requests: list[str]
    labels: Sequence[str] = ()
    """The labels of all steps in the world, also of commands that ran before the verb."""
    submits: int = 0
    """How many requests to submit a job the service has got."""
    began: int = 0
    """How many containers have begun."""
    sent_once: Mapping[str, Sequence[str]] = {}
    """As `Cloud` has it."""

    def kills(self, *wanted: str) -> dict[int, str]:
        """Give where to kill before and after what is *wanted*; all of them, unless given."""
        return {
            at: s for at, s in self.places.items() if not wanted or s.partition(" ")[2] in wanted
        }

    def strikes(self, *wanted: str) -> dict[int, str]:
        """Give the numbers of the requests that are *wanted*; all of them, unless given."""
        found = dict(enumerate(self.requests, 1))
        return {at: s for at, s in found.items() if not wanted or s in wanted}


TRACES: dict[tuple[object, ...], Traced] = {}  # by the service, the verb and the shape


def traced(driver: Driver, new: New, verb: str, shape: Shape = SINGLE) -> Traced:
    """Run a verb once with nothing in its way, for all tests of this process: each run of it takes the same steps."""
    key = (new, verb, shape.spec, *shape.settings)
    if key not in TRACES:
        with new(driver, LAST[verb], 0.0, shape) as world:
            found = located(cloud.trace(world, verb).steps)
            TRACES[key] = found._replace(
                labels=[step["label"] for ended in world.log for step in ended.steps],
                submits=world.submits(),
                began=len(world.truth()),
                sent_once=world.sent_once,
            )
    return TRACES[key]


def located(found: Iterable[Mapping[str, Any]]) -> Traced:
    """Give where a verb that took these steps can be killed."""
    steps = [s for s in found if s["what"] in REMOTE]
    labels = counted(step["label"] for step in steps)
    named = list(zip(steps, labels, strict=True))
    places = {s["n"]: label for s, label in named if s["n"] is not None}
    return Traced(places, [x.partition(" ")[2] for s, x in named if s["what"] == "send"])


def counted(labels: Iterable[str]) -> list[str]:
    """Tell equal labels apart.

    >>> counted(["send a", "send b", "send a"])
    ['send a', 'send b', 'send a (2)']
    """
    seen: Counter[str] = Counter()
    found = []
    for label in labels:
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


class Case(NamedTuple):
    """A verb for a job of a shape, while lists lag."""

    verb: str
    shape: Shape = SINGLE
    lag_s: float = 0.0

    def world(self, driver: Driver, new: New) -> AbstractContextManager[Cloud]:
        return new(driver, LAST[self.verb], self.lag_s, self.shape)

    def killed(self, driver: Driver, new: New, at: int) -> list[str]:
        with self.world(driver, new) as world:
            return MORE[self.verb](world, at=at)

    def broken(self, driver: Driver, new: New, fault: str, at: int) -> list[str]:
        with self.world(driver, new) as world:
            found = MORE[self.verb](world, wire={"at": at, "fault": fault})
            return [w for w in found if not excused(w, fault)]


def excused(wrong: str, fault: str) -> bool:
    """What was refused is said with an exit code of its own; then the same command has gone through."""
    codes = {"expired": ("exit code 5:",), "throttled": ("exit code 69:",)}
    return wrong.startswith(codes.get(fault, ("exit code 69:",)))

"""Which kills and faults each test of a matrix tries: at most MOST, the same in every run.

MOST is 20, or what RUNSPEC_FAULTS says: a number, or `all`. `tools/test --all` says a lower one, because each kill on a
cloud takes three seconds of processor time, and `--matrix` says all.

Those worth trying are listed first. On clouds they are a kill before and after every request that makes, changes or
takes away, and at some of those that only look; of the faults of the wire, four at every request of the first kind and
one at every other. Of requests that wait by asking again, the first two. `spaced` takes MOST of the list at equal
distances. Those of 20 are shorter than four, so that each request that changes something still meets a fault or two,
and each fault some request. All is a kill at every boundary, which are the calls of the client as well, and every
fault at every request.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tests.faults.cells import sample

ALL = os.environ.get("RUNSPEC_FAULTS") == "all"
MOST = 20 if ALL else int(os.environ.get("RUNSPEC_FAULTS", "20"))
AT_ONCE = 4  # faults, at a request that changes something
LOOKS = 3  # kills of each verb where it only looks
SEND, SENT = "send ", "sent "  # a kill before a request, and after it

# What waits asks again and again: the second time stands for all that come after it.
POLLED = re.compile(r"\((\d{2,}|[3-9])\)$")
READS = ("GET", "HEAD")
# Requests that only look and are sent by POST: of Azure, AWS Batch, CloudWatch Logs, which has one path, and others
# of AWS, which are named by what they ask.
ASKS = re.compile(
    r"listOutputFiles|/listKeys\b|^POST /(v1/(describe|list)\w+)?( \(\d+\))?$|^POST /\w+ (Describe|Get|List)"
)

Cell = TypeVar("Cell")


def spaced(cells: Sequence[Cell], start: float = 0.5) -> list[Cell]:
    """Take MOST of *cells* at equal distances, or all; *start* is where in the first stretch, from 0 to 1."""
    if ALL or len(cells) <= MOST:
        return list(cells)
    return [cells[int((n + start) * len(cells) / MOST)] for n in range(MOST)]


def asked_first(places: Mapping[int, str]) -> dict[int, str]:
    """Give those of *places* that are neither the third of equal ones nor a later one."""
    return {at: label for at, label in places.items() if not POLLED.search(label)}


def changes(label: str) -> bool:
    """Say whether a boundary or a request is of one that makes, changes or takes away.

    >>> changes("sent PUT blob x"), changes("GET batch /jobs"), changes("call find pool")
    (True, False, False)
    >>> changes("POST /v1/submitjob"), changes("sent POST /v1/describejobs (2)"), changes("POST / (2)")
    (True, False, False)
    >>> changes("POST /iam CreateRole"), changes("sent POST /ec2 DescribeSubnets (2)")
    (True, False)
    """
    what, _, rest = label.partition(" ")
    request = rest if what in ("send", "sent") else label
    method = request.partition(" ")[0]
    return method.isupper() and method not in READS and not ASKS.search(request)


def kills(places: Mapping[int, str], kinds: Iterable[str] = (SEND, SENT)) -> list[int]:
    """Choose where to kill: at each change before and after it, or *kinds* of these, and at some looks."""
    places = asked_first(places)
    if ALL:
        return list(places)
    looks = [at for at, label in places.items() if not changes(label)]
    made = [at for at, s in places.items() if changes(s) and s.startswith(tuple(kinds))]
    return spaced([*made, *(looks[n - 1] for n in sample(len(looks), LOOKS))])


def strikes(requests: Mapping[int, str], faults: Iterable[str]) -> list[tuple[int, str]]:
    """Choose which request meets which of *faults*: each begins where the one before it ended."""
    left, turn = asked_first(requests), itertools.cycle(faults)
    if ALL:
        return list(itertools.product(left, faults))
    counts = {at: AT_ONCE if changes(s) else 1 for at, s in left.items()}
    return spaced([(at, next(turn)) for at, count in counts.items() for _ in range(count)])

"""The figures of changes: how long a training stands still when nodes come and go, ours and a bare torchrun's."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.elastic_nodes import SAVE_EVERY, Bare, Job, Kind, Ours
from bench.installs import torch
from bench.rows import Bench, Row

STEPS = 12  # between two changes
ROUNDS = 5
BARE = "torchrun, store outside"
# The parts of a gap after the last step before it, each with the note of noted.py that ends it.
PARTS = {
    "until new workers start": "born",
    "they import": "imported",
    "they meet": "met",
    "they load": "loaded",
    "they do a step": "first step",
}
KINDS: Mapping[str, Callable[[Path, Path, Path], Kind]] = {"ours": Ours, "bare": Bare}


class Cost(NamedTuple):
    """What a change of the nodes has cost."""

    since_event_s: float  # from the event to the first step that all nodes have done
    gap_s: float  # from the last step before the event to that step: the training has stood still
    lost: int  # steps that were done twice
    parts: Mapping[str, float]  # the seconds of the gap by part, see PARTS


Costs = Mapping[str, Cost]


def change(bench: Bench) -> Iterator[Row]:
    """Add and take away nodes of the same training, in turns; a first round is not counted."""
    place = torch()
    taken: dict[str, list[Costs]] = {name: [] for name in KINDS}
    rounds = min(bench.rounds, ROUNDS)
    for n in range(rounds + 1):
        for name, kind in KINDS.items():
            folder = bench.room / f"change-{name}-{n}"
            found = _round(Job(folder, kind, place))
            shutil.rmtree(folder)
            print(f"{n} {name} {found}", file=sys.stderr)
            if n:
                taken[name].append(found)
    for what, kept in EVENTS.items():
        mine = [costs[what] for costs in taken["ours"]]
        theirs = [costs[what] for costs in taken["bare"]]
        yield _row(f"{what}: stands still", [c.gap_s for c in mine], [c.gap_s for c in theirs])
        for part in PARTS:
            ours, bare = ([c.parts[part] for c in costs] for costs in (mine, theirs))
            yield _row(f"  {part}", ours, bare, None)
        since = [c.since_event_s for c in mine], [c.since_event_s for c in theirs]
        yield _row(f"{what}: since the event", *since)
        lost, beside = max(c.lost for c in mine), max(c.lost for c in theirs)
        yield Row(f"{what}: most steps lost", lost, "", at_most=kept)
        yield Row(f"{what}: most steps lost, bare", beside, "")


def _row(what: str, mine: list[float], theirs: list[float], at_most: float | None = 1.1) -> Row:
    return Row(what, median(mine), "s", BARE, median(theirs), at_most=at_most)


def _round(job: Job) -> Costs:
    """Start two nodes, add one, and go through EVENTS."""
    try:
        since = time.time()
        job.start(0)
        job.start(1)
        job.meet(2, since, STEPS)
        job.settle()
        found: dict[str, Cost] = {}
        for what, do in DO.items():
            found[what] = _cost(job, *do)
        return found
    finally:
        job.close()


def _cost(job: Job, do: Callable[[Job], None], world: int) -> Cost:
    """Cause a change, wait until *world* nodes go on, and return what the change has cost."""
    since = time.time()
    do(job)
    job.meet(world, since, STEPS)
    new = job.meet(world, since)
    first, step = max(p[0].at for p in new), min(p[0].step for p in new)
    old = [note for process in job.seen() if process[0].at < since for note in process]
    last, done = max(n.at for n in old), max(n.step for n in old)
    return Cost(first - since, first - last, max(0, done + 1 - step), _parts(job, since, last))


def _parts(job: Job, since: float, last: float) -> Mapping[str, float]:
    """Split the time after the *last* step into PARTS, each until the slowest of the new processes had done it."""
    found, parts = job.parts(since), {}
    for part, until in PARTS.items():
        at = max(process[until] for process in found)
        parts[part], last = at - last, at
    return parts


def _start(seat: int) -> Callable[[Job], None]:
    return lambda job: job.start(seat)


# The events in their order, each with the number of nodes after it. The first node is the leader of runspec's job, and
# has rank 0 in both jobs.
DO: Mapping[str, tuple[Callable[[Job], None], int]] = {
    "added": (lambda job: job.start(2), 3),
    "killed": (lambda job: job.kill(1), 2),
    "added again": (lambda job: job.start(3), 3),
    "told to end": (lambda job: job.tell(3), 2),
    "killed, the first": (lambda job: job.kill(0), 1),
}
# How many steps each event may lose.
EVENTS: Mapping[str, int] = {
    "added": 0,
    "killed": SAVE_EVERY,
    "added again": 0,
    "told to end": 0,
    "killed, the first": SAVE_EVERY,
}

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
KINDS: Mapping[str, Callable[[Path, Path, Path], Kind]] = {"ours": Ours, "bare": Bare}


class Cost(NamedTuple):
    """What a change has cost."""

    since_event_s: float  # to the first step that all have done
    gap_s: float  # since the last step before
    lost: int  # steps that were done twice


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
        yield _row(what, [c.since_event_s for c in mine], [c.since_event_s for c in theirs])
        if what.startswith("killed"):
            name = f"{what}, since the last step"
            yield _row(name, [c.gap_s for c in mine], [c.gap_s for c in theirs])
        lost, beside = max(c.lost for c in mine), max(c.lost for c in theirs)
        yield Row(f"{what}: most steps lost", lost, "", at_most=kept)
        yield Row(f"{what}: most steps lost, bare", beside, "")


def _row(what: str, mine: list[float], theirs: list[float]) -> Row:
    return Row(f"{what}: gap", median(mine), "s", BARE, median(theirs), at_most=1.1)


def _round(job: Job) -> Costs:
    """Start two, add one, and go through EVENTS."""
    try:
        since = time.time()
        job.start(0)
        job.start(1)
        job.meet(2, since, STEPS)
        found: dict[str, Cost] = {}
        for what, do in DO.items():
            found[what] = _cost(job, *do)
        return found
    finally:
        job.close()


def _cost(job: Job, do: Callable[[Job], None], world: int) -> Cost:
    """Do it, and wait until so many go on."""
    since = time.time()
    do(job)
    job.meet(world, since, STEPS)
    new = job.meet(world, since)
    first, step = max(p[0].at for p in new), min(p[0].step for p in new)
    old = [note for process in job.seen() if process[0].at < since for note in process]
    last, done = max(n.at for n in old), max(n.step for n in old)
    return Cost(first - since, first - last, max(0, done + 1 - step))


def _start(seat: int) -> Callable[[Job], None]:
    return lambda job: job.start(seat)


# What is done one after the other, and how many run then. The first node leads ours, and has rank 0 in both.
DO: Mapping[str, tuple[Callable[[Job], None], int]] = {
    "added": (lambda job: job.start(2), 3),
    "killed": (lambda job: job.kill(1), 2),
    "added again": (lambda job: job.start(3), 3),
    "told to end": (lambda job: job.tell(3), 2),
    "killed, the first": (lambda job: job.kill(0), 1),
}
# How many steps each may lose.
EVENTS: Mapping[str, int] = {
    "added": 0,
    "killed": SAVE_EVERY,
    "added again": 0,
    "told to end": 0,
    "killed, the first": SAVE_EVERY,
}

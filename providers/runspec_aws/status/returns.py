"""Nodes of elastic jobs that have come back: each is a job of its own, as no child of an array is started twice.

`returned/NODE-NUMBER` in the store of the run announces such a job before it is submitted, and its agent claims it, as
that of the first job claims the run: so of two jobs of the same name one runs, and none after `cancel`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.status.nodes import CANCELLED, EARLIER, Place
from runspec_aws.status.poll import Job, JobPoller
from runspec_aws.store.objects import Objects

BEFORE = "RUNSPEC_ATTEMPTS_BEFORE"  # the attempts that a node had in its earlier jobs
MARK = re.compile(r"(\d{1,9})-(\d{1,9})(\.claim)?")
NOBODY = "cancelled"  # the content of a claim with which no job runs, as of the claim of a run
AWAITED = {"status": "SUBMITTED", "statusReason": "ask for the same number of nodes again"}
CALLED_OFF = {"status": "FAILED", "statusReason": CANCELLED}
ListJobs = Callable[[str], Iterable[Job]]  # those whose names begin so, oldest first


class Return(NamedTuple):
    """The job *job* of a node that has come back; *absent* describes it if it does not exist."""

    node: int  # the number of the node, counted through all tasks
    number: int  # which return of that node it is, from 1
    claimed: bool
    job: str
    absent: Job | None

    @property
    def awaited(self) -> bool:
        """Whether the job was announced, and may not have been submitted."""
        return self.absent is AWAITED


def mark(node: int, number: int) -> str:
    """Return the name of an announcement in the store."""
    return f"{node}-{number}"


def job_name(run: str, node: int, number: int) -> str:
    """Return the name of a job. The name of a run has no underscore, so it is that of no other run.

    >>> job_name("train-a1b2c3", 3, 1)
    'train-a1b2c3_3_1'
    """
    return f"{run}_{node}_{number}"


def run_of(name: str) -> str:
    """Return the run of the job *name*."""
    return name.partition("_")[0]


def list_variables(run: str, node: int, number: int, before: int) -> dict[str, str]:
    """Return the variables of a job that takes the place of the child *node*, which had *before* attempts."""
    return {
        "RUNSPEC_RUN": run,
        "RUNSPEC_INDEX": str(node),
        "RUNSPEC_CLAIM": f"returned/{mark(node, number)}.claim",
        BEFORE: str(before),
    }


class Returns:
    """The returns of nodes, by run; *ids* has the ids of jobs that were submitted here, by name."""

    def __init__(self, files: Objects, poller: JobPoller, ids: Mapping[str, str]) -> None:
        self.files, self.poller, self._submitted = files, poller, ids
        self._holders: dict[str, str] = {}  # who holds the claim, by the name of the job
        self._known: dict[str, list[Return]] = {}
        self._listed: dict[str, dict[str, list[str]]] = {}  # ids by name, as of the last list
        self._looked_s: dict[str, float] = {}

    def of(self, run: str) -> Sequence[Return]:
        """Return the returns of all nodes as of the last look, in order."""
        return self._known.get(run, ())

    def newest(self, run: str, node: int) -> Return | None:
        return next((each for each in reversed(self.of(run)) if each.node == node), None)

    def jobs(self, run: str) -> set[str]:
        """Return the ids of all jobs of nodes that have come back, also of those that will not run."""
        listed = (ids for ids in self._listed.get(run, {}).values())
        return {each.job for each in self.of(run) if each.absent is None}.union(*listed)

    def others(self, run: str) -> set[str]:
        """Return the ids of jobs in the place of which another one runs, or none."""
        claimed = [each for each in self.of(run) if each.claimed]
        listed = self._listed.get(run, {})
        named = {job for each in claimed for job in listed.get(job_name(run, *each[:2]), ())}
        return named - {each.job for each in claimed}

    def forget(self, run: str) -> None:
        """Have the next `look` make requests, because something was just changed."""
        self._looked_s.pop(run, None)

    def look(self, run: str, list_jobs: ListJobs, *, every: bool = False) -> None:
        """Look which nodes of *run* have come back; jobs are listed until all are claimed, or to know *every* one."""
        now, fresh_s = self.poller.clock.monotonic(), self.poller.session.timing.fresh_s
        if not every and now - self._looked_s.get(run, -math.inf) < fresh_s:
            return
        names = [*map(MARK.fullmatch, self.files.names(f"runs/{run}/returned/"))]
        announced = sorted({(int(name[1]), int(name[2])) for name in names if name})
        claimed = {(int(name[1]), int(name[2])) for name in names if name and name[3]}
        if len(claimed) < len(announced) or (announced and every):
            listed = self._listed[run] = {}
            for job in list_jobs(f"{run}_*"):
                listed.setdefault(job["jobName"], []).append(job["jobId"])
        self._known[run] = [self._return(run, *pair, claimed=pair in claimed) for pair in announced]
        self._looked_s[run] = now

    def _return(self, run: str, node: int, number: int, *, claimed: bool) -> Return:
        name = job_name(run, node, number)
        if claimed and name not in self._holders:
            claim = self.files.read(*_claim(run, node, number))
            self._holders[name] = (claim or b"").decode()
        holder = self._holders.get(name)
        if holder == NOBODY:
            return Return(node, number, True, name, CALLED_OFF)
        listed = self._listed.get(run, {}).get(name, ())
        job = holder or self._submitted.get(name) or next(iter(listed), None)
        return Return(node, number, claimed, job or name, None if job else AWAITED)

    def fence(self, run: str, node: int, number: int) -> bool:
        """Have no job run for a return that none has claimed; return whether that is so."""
        self.forget(run)
        claim = _claim(run, node, number)
        is_new = self.files.put_new(NOBODY.encode(), *claim)
        return is_new or self.files.read(*claim) == NOBODY.encode()

    def fence_all(self, run: str) -> None:
        """Have no job run for any return that none has claimed."""
        for each in self.of(run):
            if not each.claimed:
                self.fence(run, each.node, each.number)

    def cancel(self, run: str) -> None:
        """Have no node of *run* come back any more: what announces a job looks for this before it submits it."""
        self.files.put_new(b"", *_cancellation(run))

    def is_cancelled(self, run: str) -> bool:
        return self.files.read(*_cancellation(run)) is not None

    def call_off(self, run: str, nodes: Collection[int] | None = None) -> None:
        """Have no job run for the returns that wait for one, of *nodes* or of all."""
        for each in self.of(run):
            if each.awaited and (nodes is None or each.node in nodes):
                self.fence(run, each.node, each.number)

    def seat(self, run: str, places: Sequence[Place]) -> list[Place]:
        """Return *places* with the newest job of each node, and the earlier ones."""
        by_node: dict[int, list[Return]] = {}
        for each in self.of(run):
            by_node.setdefault(each.node, []).append(each)
        return [_seated(place, by_node.get(node, ())) for node, place in enumerate(places)]

    def describe(self, places: Collection[Place], *, anew: bool = False) -> dict[str, Job]:
        """Return the description of the newest job of each node, with the attempts of the earlier ones."""
        absent = {place.job: place.absent for place in places if place.absent is not None}
        ids = [job for place in places for job in (*place.earlier, place.job) if job not in absent]
        known = {**self.poller.describe(ids, anew=anew), **absent}
        return {place.job: _whole(place, known) for place in places if place.job in known}


def _claim(run: str, node: int, number: int) -> tuple[str, ...]:
    return ("runs", run, "returned", f"{mark(node, number)}.claim")


def _cancellation(run: str) -> tuple[str, ...]:
    return ("runs", run, "returned", "cancelled")


def _seated(place: Place, returns: Sequence[Return]) -> Place:
    if not returns:
        return place
    last = returns[-1]
    jobs = [place.job, *(each.job for each in returns[:-1] if each.absent is None)]
    return place._replace(job=last.job, earlier=tuple(jobs), absent=last.absent)


def _whole(place: Place, known: Mapping[str, Job]) -> Job:
    """Return the description of a node's newest job, with the attempts of the earlier ones before its own.

    The service forgets jobs some time after their end; then only the number of the earlier attempts is known.
    """
    job = known[place.job]
    if not place.earlier:
        return job
    former = [known.get(name, {}).get("attempts", ()) for name in place.earlier]
    attempts = [each for ended in former for each in ended]
    variables = job.get("container", {}).get("environment", ())
    given = [int(each["value"]) for each in variables if each["name"] == BEFORE]
    count = given[0] if given else len(attempts)
    before = [*({} for _ in range(count - len(attempts))), *attempts][:count]
    return {**job, "attempts": [*before, *job.get("attempts", ())], EARLIER: len(before)}

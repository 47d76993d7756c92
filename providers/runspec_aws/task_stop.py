"""Nodes of elastic jobs leave and come back: first each is a child of an array, later a job of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.naming import batch
from runspec_aws.status import returns
from runspec_aws.status.jobs import Jobs
from runspec_aws.status.nodes import Place, index
from runspec_aws.status.poll import Job, has_ended
from runspec_aws.status.returns import AWAITED
from runspec_aws.store.layout import AGENT_SHA256
from runspec_jobs.provider import Released, Request, Response, Seat, Submits
from runspec_jobs.provider.elastic_tasks import OTHER_VERSION
from runspec_jobs.provider.node_ends import AWAY

WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
BEGUN = ("RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED")  # of a job that waits for no other one


class Sender(NamedTuple):
    """What sends requests: those of the run's plan, and the function that sends one."""

    submits: Submits
    send: Callable[[Request], Response]

    def never_back(self) -> str:
        """Return why nodes cannot come back: an agent of another version may count their attempts from 1 again."""
        for do in self.submits("register_job_definition"):
            given = do.params["containerProperties"]["environment"]
            if {"name": "RUNSPEC_INSIDE_SHA256", "value": AGENT_SHA256} not in given:
                return OTHER_VERSION
        return ""

    def submit(self, name: str, values: Mapping[str, str], *, depends: bool) -> None:
        """Submit a job with the *name* and the variables *values*, otherwise as the run's plan submits its array.

        *depends*: it waits for the same jobs. The service may have forgotten those that have ended.
        """
        without = {"arrayProperties", *(() if depends else ("dependsOn",))}
        for do in self.submits("submit_job"):
            params = {key: value for key, value in do.params.items() if key not in without}
            pairs = [{"name": key, "value": value} for key, value in values.items()]
            own = {"jobName": name, "containerOverrides": {"environment": pairs}}
            self.send(batch("submit_job", **{**params, **own}))


class Announced(NamedTuple):
    """A job to submit for a node that comes back: the number of the node, of its return, and of its attempts."""

    node: int
    number: int
    attempts: int


class Releases:
    """Releases nodes, and brings them back; jobs that wait are terminated once."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self._terminated: set[str] = set()

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], sender: Sender
    ) -> Released:
        """Have the nodes *away* leave, and those of *back* come back once their jobs have ended."""
        record = self.jobs.record(run)
        job = None if record is None else self.jobs.settled_job(run)
        if record is None or job is None:
            return Released((), ())
        self.jobs.returns.forget(run)
        self.jobs.look_at_returns(run, record)
        gone, places = self.jobs.released(run), self.jobs.places(run, record)
        if not away and not back:
            awaited = {place[:2] for place in places if place.absent is AWAITED}
            return Released(gone | awaited, (), sender.never_back())
        changed = [place for place in places if place[:2] in {*away, *back}]
        known = self.jobs.returns.describe(changed, anew=True)
        alive = {
            place[:2]
            for place in changed
            if not _has_left(place, known) and not self._is_forgotten(run, record, place, known)
        }
        leaving = alive & {*away, *(gone & set(back))}
        self._send_away(run, record, [p for p in changed if p[:2] in leaving | set(away)], known)
        if self.jobs.elastic_end(run, record, job) is not None:
            return Released(gone | set(away), leaving)
        come = [
            place
            for place in changed
            if place[:2] not in {*away, *alive} and (place[:2] in gone or place.absent is AWAITED)
        ]
        stuck = self._bring_back(run, record, come, known, sender)
        came = {place[:2] for place in come} - stuck
        return Released((gone | set(away)) - came, leaving | stuck)

    def _send_away(
        self,
        run: str,
        record: Mapping[str, Any],
        places: Sequence[Place],
        known: Mapping[str, Job],
    ) -> None:
        """Note which nodes are to leave: one that runs ends by itself with 0, and one that waits is terminated."""
        numbers = [index(record, place) for place in places]
        for node in numbers:
            self.jobs.files.put_new(b"", "runs", run, "released", str(node))
        self.jobs.returns.call_off(run, numbers)
        names = (place.job for place in places if place.absent is None)
        waiting = [name for name in names if known.get(name, {}).get("status") in WAITING]
        new = [name for name in waiting if name not in self._terminated]
        self.jobs.terminate(new, AWAY, self._terminated)

    def _bring_back(
        self,
        run: str,
        record: Mapping[str, Any],
        places: Sequence[Place],
        known: Mapping[str, Job],
        sender: Sender,
    ) -> set[Seat]:
        """Submit a job for each node that comes back, and return the nodes that cannot come back yet.

        A job is announced before the record of the release is deleted, and submitted after it: so it never starts
        while there is one, and an interrupted call can be continued.
        """
        files, stuck, old, new = self.jobs.files, set[Seat](), list[Announced](), list[Announced]()
        for place in places:
            node = index(record, place)
            number = self._number(run, node)
            if number is None:
                stuck.add(place[:2])
                continue
            is_new = files.put_new(b"", "runs", run, "returned", returns.mark(node, number))
            files.remove(files.key("runs", run, "released", str(node)))
            before = self._count_attempts(run, place, known)
            (new if is_new else old).append(Announced(node, number, before))
        if (new or old) and self.jobs.returns.is_cancelled(run):
            self.jobs.end(run)
            return stuck
        for job in (*new, *self._missing(run, record, old)):
            name = returns.job_name(run, job.node, job.number)
            values = returns.list_variables(run, *job)
            sender.submit(name, values, depends=self._depends(run))
        self.jobs.returns.forget(run)
        return stuck

    def _is_forgotten(
        self, run: str, record: Mapping[str, Any], place: Place, known: Mapping[str, Job]
    ) -> bool:
        """Return whether a node's job is not shown because it ended days ago, and not because it is new."""
        if place.job in known:
            return False
        last = self.jobs.returns.newest(run, index(record, place))
        if last is not None:
            return last.claimed
        array = self.jobs.job(run)
        return array is not None and has_ended(array)

    def _count_attempts(self, run: str, place: Place, known: Mapping[str, Job]) -> int:
        """Return how many attempts a node had: of forgotten jobs, those of which the agents recorded the end."""
        if place.job in known:
            return len(known[place.job].get("attempts", ()))
        return self.jobs.kept.count_ended(run, *place[:2])

    def _number(self, run: str, node: int) -> int | None:
        """Return the number of the next job of a node; None if its last one, which none had claimed, has begun."""
        last = self.jobs.returns.newest(run, node)
        if last is None or last.awaited:
            return 1 if last is None else last.number
        # After a lost reply, a second job of the name of the last one may be there, and not be shown yet.
        over = last.claimed or self.jobs.returns.fence(run, node, last.number)
        return last.number + 1 if over else None

    def _depends(self, run: str) -> bool:
        """Return whether the array of *run* may still wait for the jobs that it depends on."""
        array = self.jobs.job(run) or {"status": ""}
        counts = array.get("arrayProperties", {}).get("statusSummary", {})
        return not has_ended(array) and not any(counts.get(status) for status in BEGUN)

    def _missing(
        self, run: str, record: Mapping[str, Any], announced: Sequence[Announced]
    ) -> Sequence[Announced]:
        """Return those of the jobs *announced* before that were not submitted: lists may lack a new job for a while."""
        clock, timing = self.jobs.session.clock, self.jobs.session.timing
        end, missing = clock.monotonic() + timing.settle_s, announced
        while missing:
            self.jobs.returns.forget(run)
            self.jobs.look_at_returns(run, record)
            awaited = {each[:2] for each in self.jobs.returns.of(run) if each.awaited}
            missing = [job for job in missing if job[:2] in awaited]
            if clock.monotonic() > end:
                break
            clock.sleep(timing.poll_s if missing else 0.0)
        return missing


def _has_left(place: Place, known: Mapping[str, Job]) -> bool:
    """Return whether no job of the node is there, or will be; the service may not show a new job yet."""
    return place.absent is not None or has_ended(known.get(place.job, {"status": ""}))

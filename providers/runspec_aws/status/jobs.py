"""The status of jobs at AWS Batch, in the terms of the core."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from runspec_aws import attempts, reasons
from runspec_aws.decision import JobKind
from runspec_aws.errors import got, translated
from runspec_aws.lookup import QUEUE, described
from runspec_aws.session import Session
from runspec_aws.status import nodes
from runspec_aws.status.nodes import CANCELLED, STATES, Place
from runspec_aws.status.poll import AT_ONCE, Children, Job, JobPoller
from runspec_aws.status.returns import Returns, run_of
from runspec_aws.store.objects import Objects
from runspec_jobs.provider import (
    Conflict,
    NodeStatus,
    RemoteError,
    Response,
    Seat,
    State,
    Status,
)
from runspec_jobs.provider.elastic_tasks import elastic_status
from runspec_jobs.provider.node_ends import AWAY
from runspec_jobs.provider.types import blamed, tell_halted
from runspec_objects.run_files import RunFiles

# The id of a child is JOB:N, and that of a node JOB#N:
# https://docs.aws.amazon.com/batch/latest/userguide/array_jobs.html
CHILD = re.compile(r"[:#]\d+$")
MOST_ENDED = (
    50  # jobs: https://docs.aws.amazon.com/batch/latest/APIReference/API_TerminateJobs.html
)
ENDED = ("SUCCEEDED", "FAILED")
SHOWN = 100  # nodes in a status while the job runs; at its end, all are listed


class Jobs:
    """The jobs of runs, by their names and ids at the service."""

    def __init__(self, session: Session, files: Objects) -> None:
        self.session = session
        self.files = files
        self.kept = RunFiles(files)
        self.poller = JobPoller(session)
        self.children = Children(session, self.poller)
        self._ids: dict[str, str] = {}
        self.returns = Returns(files, self.poller, self._ids)
        self._codes: dict[
            str, dict[attempts.AttemptKey, int | None]
        ] = {}  # of attempts that were followed by another
        self._stop_requests: dict[str, set[int]] = {}  # tasks with a stop request in the store
        self._stopped: set[str] = set()  # children that were terminated individually

    def remember(self, run: str, job: str) -> None:
        self._ids[run] = job

    def record(self, run: str) -> dict[str, Any] | None:
        """Return the record of the run from the store; None if it was destroyed."""
        return self.kept.record(run)

    def find(self, run: str) -> Response | None:
        """Return the job of *run*; of several jobs, the first one of `all_of`."""
        jobs = self.all_of(run)
        if not jobs:
            return None
        self.remember(run, jobs[0]["jobId"])
        return {key: jobs[0][key] for key in ("jobArn", "jobId", "jobName")}

    def all_of(self, run: str) -> list[Job]:
        """Return the jobs of *run*, first the one to use: that has claimed the run, is known, or is the oldest."""
        jobs = self.listed(run)
        if len(jobs) < 2:
            return jobs
        claim, known = (self.files.read("runs", run, "claim") or b"").decode(), self._ids.get(run)
        return sorted(jobs, key=lambda job: (job["jobId"] != claim, job["jobId"] != known))

    def listed(self, run: str) -> list[Job]:
        """Return the jobs whose name is *run*, oldest first. Names match regardless of case, and jobs in every state.

        Children of an array job and nodes have the name of their job, and ids that begin with its id. Lists by name
        do not contain them according to the documentation, but those of moto do: they are not jobs of their own.
        https://docs.aws.amazon.com/batch/latest/APIReference/API_ListJobs.html
        """
        record = self.record(run)
        if record is None:
            return []
        return [job for job in self.list_queue(record["queue"], run) if job["jobName"] == run]

    def list_queue(self, queue: str, name: str) -> list[Job]:
        """Return the jobs that *queue* lists for *name*, oldest first, without children."""
        try:
            jobs = [job for job in self._named(queue, name) if not CHILD.search(job["jobId"])]
        except RemoteError:
            if described(self.session, QUEUE, queue) is not None:
                raise
            return []  # the jobs were deleted with the queue
        return sorted(jobs, key=lambda job: (job.get("createdAt", 0), job["jobId"]))

    def _named(self, queue: str, name: str) -> Iterator[Job]:
        return self.listed_as(queue, filters=[{"name": "JOB_NAME", "values": [name]}])

    def listed_as(self, queue: str, **how: Any) -> Iterator[Job]:
        """Yield the jobs of *queue*, page by page: an empty page is not the end."""
        pages = self.session.look("batch").get_paginator("list_jobs")
        with translated("list_jobs"):
            for page in pages.paginate(jobQueue=queue, **how):
                yield from got(page, "jobSummaryList")

    def refuse_if_used(self, queue: str) -> None:
        """Raise Conflict while *queue* has any jobs, which deleting it would end; a queue that is gone has none."""
        try:
            for status in (s for s, state in STATES.items() if not state.terminal):
                for job in self.listed_as(queue, jobStatus=status):
                    message = f"{job['jobName']} is {status} in {queue}"
                    raise Conflict(
                        f"{message}: deleting the queue would end it",
                        "cancel the job first, or wait until it has ended",
                    )
        except RemoteError:
            self.session.valid.clear()  # another machine may have deleted it just now
            if described(self.session, QUEUE, queue) is not None:
                raise

    def alive(self) -> set[str]:
        """Return the runs of all jobs that have not ended, with a few calls for each existing queue.

        RUNNABLE is listed again at the end, because a job that is retried returns to it meanwhile.
        """
        pages = self.session.look("batch").get_paginator(QUEUE.describe)
        with translated(QUEUE.describe):
            queues = [q[QUEUE.name] for page in pages.paginate() for q in got(page, QUEUE.listed)]
        asked = [status for status, state in STATES.items() if not state.terminal]
        return {
            run_of(job["jobName"])
            for queue in queues
            for status in [*asked, "RUNNABLE"]
            for job in self.listed_as(queue, jobStatus=status)
        }

    def look_at_all(self, run: str, record: Mapping[str, Any]) -> None:
        """Describe the job of *run*, and those of its children that may have changed."""
        if run in self._ids:
            job, places = self._ids[run], self._there(run, record)
            if record["shape"] == JobKind.ARRAY and len(places) >= AT_ONCE:
                self.children.look(job, places)
            else:
                self.poller.describe([job, *places])

    def job(self, run: str) -> Job | None:
        """Return the job of *run* as it is now; None if the service does not show it.

        It shows a job for seven days at least: https://docs.aws.amazon.com/batch/latest/userguide/job_states.html
        """
        if run not in self._ids and self.find(run) is None:
            return None
        job = self.poller.describe([self._ids[run]]).get(self._ids[run])
        return self._forgotten(run) if job is None else job

    def _forgotten(self, run: str) -> Job | None:
        """Return the array of *run* as it was when it had ended, if nodes have come back, which may run for longer."""
        record = self.record(run)
        if record is None or not record.get("elastic"):
            return None
        self.look_at_returns(run, record)
        if not self.returns.of(run):
            return None
        summary = {"statusSummary": {ENDED[0]: nodes.count_tasks(record) * record["nodes"]}}
        return {"jobId": self._ids[run], "status": ENDED[0], "arrayProperties": summary}

    def settled_job(self, run: str) -> Job | None:
        """Return the job of *run*; None if it does not exist, or the service has removed it.

        The service may not show a new job yet, so a missing one is looked for repeatedly for a while.
        """
        clock, timing = self.session.clock, self.session.timing
        end = clock.monotonic() + timing.settle_s
        while (job := self.job(run)) is None and clock.monotonic() < end:
            if self._destroyed(run):
                return None
            clock.sleep(timing.missing_s)
        return job

    def _destroyed(self, run: str) -> bool:
        return self.files.read("runs", run, "record.json") is None

    def places(self, run: str, record: Mapping[str, Any]) -> list[Place]:
        """Return every node of every task, with the id of its job: `JOB#N` of a node, which has its own log stream.

        A node comes back only after its child of the array has ended.
        https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
        """
        places = nodes.places(self._ids[run], record)
        if not record.get("elastic"):
            return places
        if not self.returns.of(run) and not _counts(self.poller.known(self._ids[run]), *ENDED):
            return places
        self.look_at_returns(run, record)
        return self.returns.seat(run, places)

    def look_at_returns(
        self, run: str, record: Mapping[str, Any], *, every: bool = False
    ) -> set[str]:
        """Look which nodes have come back, and return the ids of their jobs; *every*: also those that do not run."""
        self.returns.look(run, lambda name: self.list_queue(record["queue"], name), every=every)
        return self.returns.jobs(run)

    def _there(self, run: str, record: Mapping[str, Any]) -> list[str]:
        return [node.job for node in self.places(run, record) if node.absent is None]

    def status(self, run: str) -> Status:
        record = self.record(run)
        if record is None or self._gone(run):
            return Status(State.GONE)
        job = self.settled_job(run)
        if job is None:
            return Status(State.GONE)
        state = self.state_of(job)
        if state is State.CANCELLED:
            self.returns.forget(run)  # another machine may have asked for a node just before
        listed = self._nodes(run, record, state.terminal)
        end = self.elastic_end(run, record, job)
        if state.terminal and self.returns.of(run):
            state = nodes.joint_state(state, listed)
            ended = {node.state for node in listed if node.reason != AWAY}
            if end is None and State.CANCELLED in ended and self.returns.is_cancelled(run):
                state = State.CANCELLED
        if end is not None and state.terminal and state is not State.CANCELLED:
            return elastic_status(end, listed)
        if not state.terminal or self._stopping(job, listed):
            running = _runs(job, listed)
            state = State.RUNNING if running else State.WAITING
            why = self._why(run, record, job) if state is State.WAITING else ""
            return Status(state, why, None, listed)
        return tell_halted(_ended(job, state, listed), record.get("max_failed"))

    def _why(self, run: str, record: Mapping[str, Any], job: Job) -> str:
        """Return why *job* waits; an array is PENDING while its children are, and each of them has the reason."""
        if record["shape"] != JobKind.ARRAY or job["status"] != "PENDING":
            return reasons.waiting(job)
        places = self._there(run, record)
        child = self.children.waiting(self._ids[run], places)
        return reasons.waiting(child or job)

    def elastic_end(self, run: str, record: Mapping[str, Any], job: Job) -> tuple[int, str] | None:
        """Return how an elastic job has ended according to its nodes, or None. No child ends before the job has."""
        if not record.get("elastic") or not _counts(job, *ENDED):
            return None
        return self.kept.elastic_end(run, record, nodes.count_tasks(record))

    def _stopping(self, job: Job, nodes: Sequence[NodeStatus]) -> bool:
        """Return whether other nodes may still be stopping: for AWS Batch, a job ends with its main node.

        https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
        """
        since_s = self.poller.service_s() - job.get("stoppedAt", 0) / 1000
        return since_s < self.session.timing.stop_s and any(
            not node.state.terminal for node in nodes
        )

    def _gone(self, run: str) -> bool:
        """Return whether the run was destroyed after its record was read; checked once the job has ended."""
        known = self.poller.known(self._ids.get(run, ""))
        if self.state_of(known).terminal and self._destroyed(run):
            self.kept.records.pop(run, None)
            return True
        return False

    state_of = staticmethod(nodes.state_of)

    def _nodes(self, run: str, record: Mapping[str, Any], ended: bool) -> tuple[NodeStatus, ...]:
        places = self.places(run, record)
        if len(places) > SHOWN and not ended:
            return ()
        described = self.returns.describe(places, anew=ended)
        codes, ends = self.recorded_codes(run), self.kept.ends(run, record)
        nodes.look(ends, described, places)
        gang = record["shape"] == JobKind.NODES
        states = tuple(
            nodes.node(node, described[node.job], codes, ends, alone=not gang or node.rank == 0)
            for node in places
            if node.job in described
        )
        if record.get("elastic") and any(n.state.terminal for n in states):
            gone = self.released(run)
            states = tuple(
                nodes.away(n) if n.state.terminal and n[:2] in gone else n for n in states
            )
        if gang:
            return nodes.of_gang(states, ends)
        if record["shape"] != JobKind.ARRAY or not any(
            nodes.may_have_left(n, ends) for n in states
        ):
            return states
        stops = self.kept.numbers(run, "stop/") | self.halted(run, record)
        return tuple(
            nodes.stopped(n) if n.task in stops and nodes.may_have_left(n, ends) else n
            for n in states
        )

    def halted(self, run: str, record: Mapping[str, Any]) -> set[int]:
        """Return the tasks that are to end because `max_failed` others have failed."""
        return self.kept.halted(run, record, nodes.count_tasks(record))

    def count_failed(self, run: str, record: Mapping[str, Any]) -> None:
        """Count tasks for `max_failed` that have failed together with their agents."""
        if "max_failed" not in record or (run not in self._ids and self.find(run) is None):
            return
        self.look_at_all(run, record)
        known = ((place.task, self.poller.known(place.job)) for place in self.places(run, record))
        failed = {task for task, job in known if self.state_of(job) is State.FAILED}
        self.kept.count_failed(run, record, failed, lambda key: self.files.put_new(b"", key))

    def released(self, run: str) -> set[Seat]:
        """Return the nodes of an elastic run that were released."""
        record = self.record(run)
        released = self.kept.numbers(run, "released/") if record is not None else ()
        return {divmod(number, record["nodes"]) for number in released if record}

    def recorded_codes(self, run: str) -> attempts.Codes:
        """Return a function for the codes that jobs recorded before they exited with AGAIN; it reads the store once.

        It is for attempts that are over: their records do not change any more.
        """
        known = self._codes.setdefault(run, {})
        base, asked = f"{self.files.prefix}/runs/{run}/failures/", False

        def code(which: attempts.AttemptKey) -> int | None:
            nonlocal asked
            if which not in known and not asked:
                keys = (entry["Key"][len(base) :] for entry in self.files.listing(base))
                known.update(note for note in map(attempts.noted, keys) if note is not None)
                asked = True
            return known.setdefault(which, None)

        return code

    def end(self, run: str) -> None:
        """Terminate every job of *run*. The claim is written first, so that a job that starts later exits."""
        record = self.record(run)
        if record is None:
            return
        self.files.put_new(b"cancelled", "runs", run, "claim")
        ids = {job["jobId"] for job in self.listed(run)} | {self._ids.get(run, "")} - {""}
        if record.get("elastic"):
            self.returns.cancel(run)  # before the look: another machine may announce a job just now
            ids |= self.look_at_returns(run, record, every=True)
            self.returns.call_off(run)
        jobs = self.poller.describe(ids).values()
        self.terminate([job["jobId"] for job in jobs if not self.state_of(job).terminal], CANCELLED)
        self.returns.fence_all(run)  # a second job of a name may not be shown yet

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """Terminate the children of *tasks*, each once; AWS Batch does not retry terminated jobs.

        The request is written to the store first: an attempt that begins before its child is terminated finds it.

        https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html
        """
        record, job = self.record(run), self.settled_job(run)
        if record is None or job is None:
            return
        if self.state_of(job).terminal and not record.get("elastic"):
            return
        if record["shape"] != JobKind.ARRAY:
            self.end(run)
            return
        for task in set(tasks) - self._stop_requests.setdefault(run, set()):
            self.files.put_new(b"", "runs", run, "stop", str(task))
            self._stop_requests[run].add(task)
        places = [node for node in self.places(run, record) if node.task in tasks]
        self.returns.call_off(
            run, [task_of * record["nodes"] + rank for task_of, rank, *_ in places]
        )
        mine = {node.job for node in places if node.absent is None}
        children = self.poller.describe(mine - self._stopped)
        alive = [name for name, child in children.items() if not self.state_of(child).terminal]
        self.terminate(alive, CANCELLED, self._stopped)
        self._stopped.update(children)

    def end_named(self, queue: str, name: str) -> None:
        """Terminate every job called *name* in *queue*; do nothing if there is none, or no queue."""
        if described(self.session, QUEUE, queue) is None:
            return
        named = [job for job in self._named(queue, name) if job["jobName"] == name]
        self.terminate(
            [job["jobId"] for job in named if not self.state_of(job).terminal], CANCELLED
        )

    def terminate(self, jobs: Sequence[str], reason: str, asked: set[str] | None = None) -> None:
        """Terminate *jobs* with TerminateJob, or several with TerminateJobs; CancelJob ignores jobs that run.

        The jobs that the service accepts are added to *asked*. Raises RemoteError for the first job that the service
        did not terminate, after the request for the last one; to repeat it does no harm. For a child of an array that
        waits, see docs/unverified.md, aws-21.
        """
        batch = self.session.look("batch")
        most = MOST_ENDED if hasattr(batch, "terminate_jobs") else 1  # an earlier boto3 has none
        refused: list[Mapping[str, Any]] = []
        for start in range(0, len(jobs), most):
            names = jobs[start : start + most]
            errors: Sequence[Mapping[str, Any]] = ()
            with translated("terminate_job"):
                if len(names) == 1:
                    batch.terminate_job(jobId=names[0], reason=reason)
                else:
                    answer = batch.terminate_jobs(jobs=list(names), reason=reason)
                    errors = got(answer, "errors")
            for name in names:
                self.poller.forget(name)
            if asked is not None:
                asked.update({*names} - {error.get("job") for error in errors})
            refused.extend(errors)
        if refused:
            job, code, message = (refused[0].get(key, "?") for key in ("job", "code", "message"))
            raise RemoteError(f"terminate_jobs: {job}: {code}: {message}")


def _ended(job: Job, state: State, nodes: tuple[NodeStatus, ...]) -> Status:
    if state is State.SUCCEEDED and (unproven := blamed(nodes)):
        return Status(State.FAILED, unproven.reason, unproven.exit_code, nodes)
    if state is State.SUCCEEDED:
        return Status(state, reasons.reclaimed(job), 0, nodes)
    if state is State.CANCELLED:
        return Status(state, job.get("statusReason", CANCELLED), None, nodes)
    stayed = [node for node in nodes if node.reason != AWAY]
    stopped = {node.task for node in stayed if node.state is State.CANCELLED}
    wanted = [node for node in stayed if node.task not in stopped]
    if stopped and all(node.state is State.SUCCEEDED for node in wanted):
        if not wanted:
            return Status(State.CANCELLED, CANCELLED, None, nodes)
        return Status(State.SUCCEEDED, f"{len(stopped)} tasks were stopped", 0, nodes)
    first = blamed(nodes)
    reason = (first.reason if first else "") or reasons.ended(job)
    return Status(state, reason, first.exit_code if first else None, nodes)


def _runs(job: Job, listed: Sequence[NodeStatus]) -> bool:
    """Return whether the job runs; an array whose children run is PENDING itself."""
    running = any(node.state is State.RUNNING for node in listed)
    return running or _counts(job, "RUNNING") or job["status"] == "RUNNING"


def _counts(job: Job, *statuses: str) -> bool:
    """Return whether *job* has children in one of *statuses*."""
    counts = job.get("arrayProperties", {}).get("statusSummary", {})
    return any(counts.get(status) for status in statuses)

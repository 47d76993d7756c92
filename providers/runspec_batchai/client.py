"""The client of the Azure Batch AI provider: it sends the requests of a plan, and finds what they made."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec_azure import store_layout
from runspec_azure.session import clouds
from runspec_azure.timing import CLOCK, Clock
from runspec_batchai import logs, lookup, orphans, resources, status, store_volumes, timing
from runspec_batchai.attempts import ATTEMPTS_FILE, End
from runspec_batchai.naming import batchai, output_id
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.session import Arm
from runspec_batchai.store import Store
from runspec_batchai.store_volumes import STORE
from runspec_batchai.timing import Timing
from runspec_jobs.provider import (
    Bundle,
    Client,
    Facts,
    NoAnswer,
    NodeStatus,
    Orphan,
    OutputFile,
    Places,
    Progress,
    RemoteError,
    Request,
    Response,
    State,
    Status,
    Step,
    requests_of,
)
from runspec_jobs.provider.streams.log_streams import Stream

TAGGED = ("ResourceGroups", "Workspaces")  # other resources have no tags in this API, only names
FIRST, LATER = re.compile(r"-00000\Z"), re.compile(r"-(?!00000)\d{5}\Z")  # jobs of a sweep


def connect(facts: Facts) -> Client:
    return BatchAiClient(facts.options, timing.DEFAULT)


class BatchAiClient:
    """A client of an endpoint with the API of Batch AI, and of Blob storage."""

    def __init__(
        self, options: BatchAiOptions, timing: Timing = timing.DEFAULT, clock: Clock = CLOCK
    ) -> None:
        self.options, self.timing, self.clock = options, timing, clock
        self.arm = Arm(options)
        self.store = Store(options)
        self.files = logs.Files(self.arm, timing, clock)
        self._ran: set[str] = set()
        self._jobs: dict[str, list[str]] = {}
        self._seen: tuple[str, float, list[tuple[int, Any]]] = ("", 0.0, [])
        self._ends: dict[str, tuple[float, Mapping[int, End], bool]] = {}
        self._why: tuple[float, str] = (-math.inf, "")

    @property
    def poll_s(self) -> float:
        return self.timing.poll_s

    def call(self, request: Request) -> Response:
        self._seen = ("", 0.0, [])
        if request.operation == "in_turn":
            for part in requests_of(request):
                self.call(part)
            return {}
        if request.operation == "empty_prefix":
            self.store.empty(request.params["path"]["prefix"])
            return {}
        if request.operation.endswith("_Delete"):
            self._delete(request)
            return {}
        if request.operation == "Clusters_Create":
            resources.check_quota(request.params["body"], self.arm.usages())
        self.arm.send(request)
        return named(request)

    def _delete(self, request: Request) -> None:
        """Delete something that runspec made and no one else uses, and wait until it no longer exists."""
        kind, path = request.operation.partition("_")[0], request.params["path"]
        if kind == "Jobs":
            self._forget(path["jobName"])
        resource = self.arm.look(kind, path)
        if resource is None or (kind in TAGGED and not lookup.ours(resource)):
            return
        lookup.refuse(self.arm, kind, path)
        self.arm.send(request)
        self._await(lambda: self.arm.look(kind, path) is None, request.operation)

    def _await(self, done: Callable[[], bool], what: str) -> None:
        pause_s, longest_s = self.timing.first_pause_s, self.timing.gone_s
        end = self.clock.monotonic() + longest_s
        while not done():
            if self.clock.monotonic() > end:
                raise NoAnswer(f"{what}: not finished after {longest_s:.0f} s")
            self.clock.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)

    def find(self, step: Step) -> Response | None:
        if step.do.operation == "upload_folder":
            there = self.store.has(step.do.params["path"]["prefix"])
            return named(step.do) if there else None
        resource = self.arm.look(step.do.operation.partition("_")[0], step.do.params["path"])
        if resource is None or provisioning(resource).lower() == "deleting":
            return None
        return named(step.do)

    def settled(self, step: Step) -> bool:
        if step.do.service != "batchai":
            return True
        resource = self.arm.look(step.do.operation.partition("_")[0], step.do.params["path"])
        if resource is None:
            return False
        if provisioning(resource) == "failed":
            errors = [status.error_line(error) for error in getattr(resource, "errors", None) or ()]
            raise RemoteError(
                f"Batch AI could not make {resource.name}: {'; '.join(errors) or 'no reason given'}"
            )
        return provisioning(resource) != "creating"

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        self.store.put_folder(request.params["path"]["prefix"], bundle, progress)
        return named(request)

    def remember(self, run: str, answers: Mapping[str, Response]) -> None:
        names = [a["jobName"] for step, a in answers.items() if step.startswith("job")]
        if names:
            self._jobs[run] = sorted(names)

    def path_of(self, name: str) -> Mapping[str, str]:
        names = {"experimentName": self.options.experiment, "jobName": name}
        path: Mapping[str, str] = batchai("Jobs_Get", self.options, names).params["path"]
        return path

    def _find_jobs(self, run: str) -> list[tuple[int, Any]]:
        """Return the jobs of *run* by task; recent answers are cached."""
        name, at, jobs = self._seen
        if name != run or not jobs or self.clock.monotonic() - at > self.timing.fresh_s:
            jobs = self._requested(run)
            self._seen = (run, self.clock.monotonic(), jobs)
        return jobs

    def _requested(self, run: str) -> list[tuple[int, Any]]:
        """Return the jobs of *run* without the cache: several jobs with one list request."""
        names = self._jobs.get(run) or [run]
        if names == [run]:
            job = self.arm.look("Jobs", self.path_of(run))
            if job is not None:
                return [(0, job)]
        listed = self.arm.jobs(self.path_of(run))
        numbered = re.compile(rf"{re.escape(run)}-(\d{{5}})")
        matches = [(numbered.fullmatch(str(job.name)), job) for job in listed]
        return sorted((int(m[1]), job) for m, job in matches if m) if matches else []

    def state(self, run: str) -> Status:
        jobs = self._find_jobs(run)
        if not jobs:
            return Status(State.GONE)
        nodes = [self._node(task, job) for task, job in jobs]
        waits = all(node.state is State.WAITING for node in nodes)
        why = self._waits(jobs[0][1]) if waits else ""
        if any(node.reason == status.LOST for node in nodes):
            why = f"{status.LOST}; {why}"
        return status.status(nodes, why)

    def _node(self, task: int, job: Any) -> NodeStatus:
        node = status.node(task, job, self._ended_attempts(job))
        if node.state is State.RUNNING:
            self._ran.add(job.name)
        if node.state is State.WAITING and (job.name in self._ran or status.requeued(job)):
            return node._replace(reason=status.LOST)
        return node

    def _ended_attempts(self, job: Any) -> Mapping[int, End]:
        """Return how the attempts of *job* ended, from the file that its shell writes."""
        line = getattr(job.custom_toolkit_settings, "command_line", None) or ""
        over = status.node(0, job).state.terminal
        if ATTEMPTS_FILE not in line or str(job.execution_state) == "queued":
            return {}
        at, known, last = self._ends.get(job.name, (-math.inf, {}, False))
        pause_s = self.timing.listed_s * max(
            1, len(self._ends)
        )  # all jobs share one rate of requests
        if not last and (over or self.clock.monotonic() - at > pause_s):
            known = logs.ends(self.files, self.path_of(job.name)) or known
            self._ends[job.name] = (self.clock.monotonic(), known, over)
        return known

    def _waits(self, job: Any) -> str:
        at, why = self._why
        if self.clock.monotonic() - at > self.timing.why_s:
            name = status.cluster_of(job)
            path = batchai("Clusters_Get", self.options, {"clusterName": name}).params["path"]
            why = status.waits(self.arm.look("Clusters", path)) if name else ""
            self._why = (self.clock.monotonic(), why)
        return why

    def cancel(self, run: str) -> None:
        self._seen = ("", 0.0, [])
        for task, job in self._find_jobs(run):
            if not status.node(task, job).state.terminal:
                names = {"experimentName": self.options.experiment, "jobName": job.name}
                self.arm.send(batchai("Jobs_Terminate", self.options, names))
        self._seen = ("", 0.0, [])

    def keep_state(self, run: str, content: bytes) -> None:
        """Keep the state, unless there is no container or only the service can read the account's key."""
        if self.store.writable:
            self.store.blobs.put(store_volumes.state(run, self.options), content)

    def kept_state(self, run: str) -> bytes | None:
        key = store_volumes.state(run, self.options)
        return self.store.blobs.read(key) if self.store.named else None

    def kept_runs(self) -> Sequence[str]:
        return (
            self.store.blobs.folders(store_volumes.kept("", self.options))
            if self.store.named
            else ()
        )

    def _forget(self, job: str) -> None:
        """Delete the kept state of a run if *job* is its first job, which is deleted last."""
        if self.store.writable and not LATER.search(job):
            self.store.blobs.remove([store_volumes.state(FIRST.sub("", job), self.options)])

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        return orphans.OrphanFinder(self.arm, self.store).find_orphans(runs, made)

    def streams(self, run: str) -> Sequence[Stream]:
        made = [
            stream for task, job in self._find_jobs(run) for stream in self._streams_of(task, job)
        ]
        return sorted(made, key=lambda stream: (stream.task, stream.rank))

    def _streams_of(self, task: int, job: Any) -> Sequence[Stream]:
        state = status.node(task, job).state
        waits = state is State.WAITING
        return self.files.streams(task, self.path_of(job.name), over=state.terminal, waits=waits)

    def places(self, run: str) -> Places:
        options = self.options
        logs = store_volumes.logs(options)
        if (
            options.logs is None
            and options.file_share is not None
            and options.storage_account is not None
        ):
            logs = clouds.of(options).share_url(options.storage_account, options.file_share)
        return Places(
            logs,
            f"{store_layout.endpoint(options)}/{options.container or ''}/{store_volumes.kept(run, options)}",
        )

    def outputs(self, run: str) -> Sequence[OutputFile]:
        made = [
            file
            for task, job in self._find_jobs(run)
            for file in logs.outputs(self.files, task, self.path_of(job.name), self._names(job))
        ]
        return sorted(made, key=lambda file: (file.output, file.task, file.rank, file.path))

    def _names(self, job: Any) -> list[tuple[str, str]]:
        """Return the ids of a job's output directories, and the names of the outputs in the spec."""
        known = {output_id(name, self.options): name for name in self.options.results}
        names = []
        for directory in job.output_directories or ():
            if not directory.id:
                continue
            own = f"/{STORE}/" in f"{directory.path_prefix}/" and directory.path_suffix
            names.append((directory.id, known.get(directory.id) or own or directory.id.lower()))
        return names


def named(request: Request) -> Response:
    """Return the names of the resources that *request* makes, as its answer."""
    keys = (
        "resourceGroupName",
        "workspaceName",
        "clusterName",
        "experimentName",
        "jobName",
        "prefix",
    )
    path = request.params["path"]
    return {key: path[key] for key in keys if key in path}


def provisioning(resource: Any) -> str:
    return str(getattr(resource, "provisioning_state", None) or "")

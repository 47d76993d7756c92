"""The hands of the Azure Batch AI provider: they send the requests of a plan, and find what they made."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspec.provider import (
    Answer,
    Bundle,
    Client,
    Conflict,
    Facts,
    NoAnswer,
    OutputFile,
    Progress,
    RemoteError,
    Request,
    State,
    Status,
    Step,
    Stream,
)
from runspec_azure.batchai import quota, states, streams
from runspec_azure.batchai.arm import Arm
from runspec_azure.batchai.naming import batchai, each, output_id
from runspec_azure.batchai.options import BatchAiOptions
from runspec_azure.batchai.plan import OURS
from runspec_azure.batchai.store import Store
from runspec_azure.batchai.toolkits import TRIES
from runspec_azure.batchai.volumes import STORE

GONE_S = 900.0  # for what is being deleted to be gone
PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
WHY_S = 5.0  # why a job waits is asked again after so long


def connect(facts: Facts) -> Client:
    return BatchAiClient(facts.options)


class BatchAiClient:
    """Talks to what speaks the API of Batch AI, and to Blob storage."""

    poll_s = 1.0

    def __init__(self, options: BatchAiOptions) -> None:
        self.options = options
        self.arm = Arm(options)
        self.store = Store(options)
        self.files = streams.Files(self.arm)
        self._jobs: dict[str, list[str]] = {}
        self._codes: dict[str, tuple[float, Mapping[int, int], bool]] = {}
        self._why: tuple[float, str] = (-WHY_S, "")

    def call(self, request: Request) -> Answer:
        if request.operation == "in_turn":
            for part in each(request):
                self.call(part)
            return {}
        if request.operation == "empty_prefix":
            self.store.empty(request.params["path"]["prefix"])
            return {}
        if request.operation.endswith("_Delete"):
            self._delete(request)
            return {}
        if request.operation == "Clusters_Create":
            quota.check(request.params["body"], self._usages())
        self.arm.send(request)
        return named(request)

    def _usages(self) -> Mapping[str, tuple[int, int]]:
        """Give what is in use and the limits, as far as the service tells."""
        location = self.options.location or ""
        found = self.arm.listed("Usages_List", lambda: self.arm.looker.usages.list(location))
        return {usage.name.value: (usage.current_value, usage.limit) for usage in found}

    def _delete(self, request: Request) -> None:
        """Take something away, and wait until it is gone; nothing that others use."""
        kind, path = request.operation.partition("_")[0], request.params["path"]
        found = self.arm.look(kind, path)
        if found is None or (kind == "ResourceGroups" and not ours(found)):
            return
        self._refuse_if_used(kind, path)
        self.arm.send(request)
        self._await(lambda: self.arm.look(kind, path) is None, request.operation)

    def _refuse_if_used(self, kind: str, path: Mapping[str, str]) -> None:
        """Raise Conflict while jobs are in what is to go, whoever's they are: they would go with it."""
        if kind == "Jobs":
            return
        client, group = self.arm.looker, path["resourceGroupName"]
        if kind == "ResourceGroups":
            listing = lambda: client.workspaces.list_by_resource_group(group)  # noqa: E731
            rest = self.arm.listed("Workspaces_ListByResourceGroup", listing)
            if rest:
                raise Conflict(
                    f"the workspace {rest[0].name} is still in {group}", "delete it first"
                )
            return
        for name, job in self._all_jobs(path):
            alive = not states.node(0, job).state.terminal
            inside = kind == "Workspaces" or name == path.get("experimentName")
            on = kind == "Clusters" and str(job.cluster.id).endswith(f"/{path['clusterName']}")
            if inside or (on and alive):
                raise Conflict(
                    f"the job {job.name} is there: it would go, too", "destroy its run first"
                )

    def _all_jobs(self, path: Mapping[str, str]) -> list[tuple[str, Any]]:
        where = (path["resourceGroupName"], path["workspaceName"])
        client = self.arm.looker
        experiments = self.arm.listed(
            "Experiments_ListByWorkspace", lambda: client.experiments.list_by_workspace(*where)
        )
        return [
            (one.name, job)
            for one in experiments
            for job in self.arm.listed(
                "Jobs_ListByExperiment",
                lambda name=one.name: client.jobs.list_by_experiment(*where, name),  # type: ignore[misc]
            )
        ]

    def _await(self, done: Callable[[], bool], what: str) -> None:
        pause_s, end = PAUSE_S, time.monotonic() + GONE_S
        while not done():
            if time.monotonic() > end:
                raise NoAnswer(f"{what}: not done in {GONE_S:.0f} s")
            time.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.5)

    def find(self, step: Step) -> Answer | None:
        if step.do.operation == "upload_folder":
            there = self.store.has(step.do.params["path"]["prefix"])
            return named(step.do) if there else None
        found = self.arm.look(step.do.operation.partition("_")[0], step.do.params["path"])
        if found is None or provisioning(found).lower() == "deleting":
            return None
        return named(step.do)

    def settled(self, step: Step) -> bool:
        if step.do.service != "batchai":
            return True
        found = self.arm.look(step.do.operation.partition("_")[0], step.do.params["path"])
        if found is None:
            return False
        if provisioning(found) == "failed":
            errors = [states.told(error) for error in getattr(found, "errors", None) or ()]
            raise RemoteError(
                f"{found.name} was not made: {'; '.join(errors) or 'no reason given'}"
            )
        return provisioning(found) != "creating"

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Answer:
        self.store.put_folder(request.params["path"]["prefix"], bundle, progress)
        return named(request)

    def remember(self, run: str, answers: Mapping[str, Answer]) -> None:
        names = [a["jobName"] for step, a in answers.items() if step.startswith("job")]
        if names:
            self._jobs[run] = sorted(names)

    def _path(self, name: str) -> Mapping[str, str]:
        names = {"experimentName": self.options.experiment, "jobName": name}
        path: Mapping[str, str] = batchai("Jobs_Get", self.options, names).params["path"]
        return path

    def _found(self, run: str) -> list[tuple[int, Any]]:
        """Give the jobs of *run* by task, from one list where there are many."""
        names = self._jobs.get(run) or [run]
        if names == [run]:
            job = self.arm.look("Jobs", self._path(run))
            if job is not None:
                return [(0, job)]
        group, workspace = self.options.resource_group, self.options.workspace
        jobs = self.arm.looker.jobs
        listed = self.arm.listed(
            "Jobs_ListByExperiment",
            lambda: jobs.list_by_experiment(group, workspace, self.options.experiment),
        )
        numbered = re.compile(rf"{re.escape(run)}-(\d{{5}})")
        matches = [(numbered.fullmatch(job.name), job) for job in listed]
        return sorted((int(m[1]), job) for m, job in matches if m) if matches else []

    def state(self, run: str) -> Status:
        found = self._found(run)
        if not found:
            return Status(State.GONE)
        nodes = [states.node(task, job, self._tries(job)) for task, job in found]
        waits = all(node.state is State.WAITING for node in nodes)
        return states.status(nodes, self._waits(found[0][1]) if waits else "")

    def _tries(self, job: Any) -> Mapping[int, int]:
        """Give the exit codes of the tries of *job* that are over, which its shell wrote down."""
        line = getattr(job.custom_toolkit_settings, "command_line", None) or ""
        over = states.node(0, job).state.terminal
        if TRIES not in line or str(job.execution_state) == "queued":
            return {}
        at, known, last = self._codes.get(job.name, (-WHY_S, {}, False))
        if not last and (over or time.monotonic() - at > WHY_S):
            known = streams.codes(self.files, self._path(job.name)) or known
            self._codes[job.name] = (time.monotonic(), known, over)
        return known

    def _waits(self, job: Any) -> str:
        at, why = self._why
        if time.monotonic() - at > WHY_S:
            name = str(job.cluster.id).rpartition("/")[2]
            path = batchai("Clusters_Get", self.options, {"clusterName": name}).params["path"]
            why = states.waits(self.arm.look("Clusters", path))
            self._why = (time.monotonic(), why)
        return why

    def cancel(self, run: str) -> None:
        for task, job in self._found(run):
            if not states.node(task, job).state.terminal:
                names = {"experimentName": self.options.experiment, "jobName": job.name}
                self.arm.send(batchai("Jobs_Terminate", self.options, names))

    def streams(self, run: str) -> Sequence[Stream]:
        made = [
            stream
            for task, job in self._found(run)
            for stream in self.files.streams(
                task, self._path(job.name), over=states.node(task, job).state.terminal
            )
        ]
        return sorted(made, key=lambda stream: (stream.task, stream.rank))

    def outputs(self, run: str) -> Sequence[OutputFile]:
        made = [
            file
            for task, job in self._found(run)
            for file in streams.outputs(self.files, task, self._path(job.name), self._names(job))
        ]
        return sorted(made, key=lambda file: (file.output, file.task, file.rank, file.path))

    def _names(self, job: Any) -> list[tuple[str, str]]:
        """Give the ids of a job's output directories, and what the spec calls them."""
        known = {output_id(name, self.options): name for name in self.options.results}
        found = []
        for directory in job.output_directories or ():
            own = f"/{STORE}/" in f"{directory.path_prefix}/" and directory.path_suffix
            found.append((directory.id, known.get(directory.id) or own or directory.id.lower()))
        return found


def named(request: Request) -> Answer:
    """Give the names of what *request* makes: all that later steps and clients need."""
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


def provisioning(found: Any) -> str:
    return str(getattr(found, "provisioning_state", None) or "")


def ours(group: Any) -> bool:
    """Say whether runspec made a resource group: one that was there holds other things."""
    return all((group.tags or {}).get(key) == value for key, value in OURS.items())

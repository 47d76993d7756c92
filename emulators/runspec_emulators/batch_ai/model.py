"""The resources of the service: workspaces, clusters and their nodes, experiments, jobs, file servers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

PROVIDER = "Microsoft.BatchAI"
OVER = {"succeeded", "failed"}  # executionState of jobs that are over
PRIORITIES = {"high": 0, "normal": 1, "low": 2}


def now() -> str:
    """Return the time as the service writes it."""
    text = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


@dataclass
class Resource:
    """The fields of every resource. Names keep their case, which ARM ignores."""

    id: str
    name: str
    kind: str
    """The type, as recipes show it: Microsoft.BatchAI/workspaces/... (examples have it shorter)."""
    properties: dict[str, Any]
    """The properties of the request, as they were sent."""
    creation_time: str = field(default_factory=now)
    provisioning_state: str = "succeeded"
    provisioning_time: str = field(default_factory=now)

    def provision(self, state: str) -> None:
        self.provisioning_state, self.provisioning_time = state, now()


class JobRun(Protocol):
    """One run of a job on its nodes, as the rest of the service sees it."""

    def stop(self, why: str, grace_s: float) -> None:
        """Have every process end: by SIGTERM and, after *grace_s*, SIGKILL. Returns at once."""

    def join(self, timeout_s: float) -> None:
        """Wait until the run has ended, but no longer than *timeout_s*."""


@dataclass
class Node:
    """A virtual machine of a cluster: a folder and an address of this machine."""

    id: str
    address: str
    port: int
    folder: Path
    state: str = "preparing"  # idle, running, preparing, unusable, leaving: NodeStateCounts
    job: Job | None = None
    idle_since: float = 0.0

    @property
    def mounts(self) -> Path:
        return self.folder / "mounts"

    @property
    def mark(self) -> str:
        """Return the mark in the environment of every process of the node's setup task."""
        return str(self.folder)


@dataclass
class Cluster(Resource):
    """Nodes that are alike."""

    nodes: list[Node] = field(default_factory=list)
    target: int = 0
    allocation_state: str = "steady"
    allocation_time: str = field(default_factory=now)
    errors: list[dict[str, Any]] = field(default_factory=list)
    setup_suffix: str = ""
    deleted: bool = False

    @property
    def low_priority(self) -> bool:
        return bool(self.properties.get("vmPriority") == "lowpriority")

    @property
    def scale(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.properties.get("scaleSettings") or {
            "manual": {"targetNodeCount": 0}
        }
        return settings

    def allocate(self, state: str) -> None:
        if state != self.allocation_state:
            self.allocation_state, self.allocation_time = state, now()


@dataclass
class Job(Resource):
    """A job and what it is doing."""

    cluster: Cluster | None = None
    segment: str = ""
    """jobOutputDirectoryPathSegment."""
    guid: str = ""
    number: int = 0
    state: str = "queued"
    state_time: str = field(default_factory=now)
    start_time: str | None = None
    end_time: str | None = None
    exit_code: int | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    run: JobRun | None = None
    runs: int = 0

    def move(self, state: str) -> None:
        self.state, self.state_time = state, now()

    def end(self, state: str) -> None:
        """Move the job to *state*, which is one of `OVER`."""
        self.end_time = now()
        self.move(state)

    @property
    def rank(self) -> tuple[int, int]:
        """The key by which queued jobs are sorted."""
        return PRIORITIES[self.properties.get("schedulingPriority", "normal")], self.number


@dataclass
class Experiment(Resource):
    jobs: dict[str, Job] = field(default_factory=dict)


@dataclass
class FileServer(Resource):
    address: str = ""


@dataclass
class Workspace(Resource):
    """A workspace, and all that is in it, by names in lower case."""

    location: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(default_factory=dict)
    experiments: dict[str, Experiment] = field(default_factory=dict)
    file_servers: dict[str, FileServer] = field(default_factory=dict)

    @property
    def jobs(self) -> list[Job]:
        return [job for experiment in self.experiments.values() for job in experiment.jobs.values()]


@dataclass
class Group:
    """A resource group."""

    id: str
    name: str
    location: str
    tags: dict[str, str] = field(default_factory=dict)
    workspaces: dict[str, Workspace] = field(default_factory=dict)

"""The records of jobs in the service, and the lists that contain them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runspec_emulators.aws.nodes.engine import Running
from runspec_emulators.aws.nodes.imds import Machine
from runspec_emulators.aws.nodes.instances import Size

FINISHED = ("SUCCEEDED", "FAILED")
WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
STATES = (*WAITING, "STARTING", "RUNNING", *FINISHED)


@dataclass
class Attempt:
    """One try to run a container."""

    number: int
    task: str
    task_arn: str
    instance: str
    instance_arn: str
    address: str
    started_ms: int | None = None
    stopped_ms: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    status_reason: str | None = None
    log_group: str = ""
    log_stream: str | None = None
    running: Running | None = None
    verdict: str | None = None
    """The statusReason of an end that was ordered: a timeout, a lost machine."""
    final: bool = False
    """Whether that end forbids another attempt."""
    lost: bool = False
    """Whether the machine was lost, and with it the exit code."""
    machine: Machine = field(default_factory=Machine)
    awsvpc: bool = False
    """Whether it has a network interface of its own: nodes of multi-node jobs."""
    out_of_memory: bool = False
    """Whether the kernel killed it."""
    token: str = field(default_factory=secrets.token_urlsafe)
    """The part of the paths of its metadata that nobody else knows, as that of ECS endpoints is."""


@dataclass
class Job:
    """A job: alone, an array or a child of one, a multi-node job or a node of one."""

    id: str
    name: str
    arn: str
    queue: str
    definition: Mapping[str, Any]
    params: Mapping[str, Any]
    """The request, as it came."""
    container: Mapping[str, Any] | None
    """The properties of its container, overrides put in. Parents have none."""
    created_ms: int
    born: float
    """When it was made, by the monotonic clock: lists lag behind it."""
    number: int
    retry: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    needs: list[tuple[str, str]] = field(default_factory=list)
    """Jobs that must succeed first: (id, type of the dependency)."""
    status: str = "SUBMITTED"
    status_reason: str | None = None
    started_ms: int | None = None
    stopped_ms: int | None = None
    ended: float | None = None
    attempts: list[Attempt] = field(default_factory=list)
    environment: str | None = None
    """The compute environment where it was placed."""
    parent: Job | None = None
    index: int | None = None
    children: list[Job] = field(default_factory=list)
    nodes: Mapping[str, Any] | None = None
    """The node properties of a multi-node job, overrides put in."""
    cancelled: bool = False
    terminated: bool = False
    tags: dict[str, str] = field(default_factory=dict)
    starts: int = 0
    """The number of times that a process was really started."""

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    @property
    def is_array(self) -> bool:
        return bool(self.children) and self.nodes is None

    @property
    def is_multinode(self) -> bool:
        return bool(self.children) and self.nodes is not None

    @property
    def main(self) -> Job:
        """The node whose end is the end of the job; a job of one container is its own."""
        return self.children[self.nodes["mainNode"]] if self.nodes is not None else self

    @property
    def containers(self) -> list[Job]:
        """The jobs with a container that make up one placement: its nodes, or itself."""
        return self.children if self.is_multinode else [self]

    def size(self) -> Size:
        """Return what the job wants of one machine: for nodes, the largest wish."""
        sizes = [wish(job.container or {}) for job in self.containers]
        # Nodes of one job have machines of one type.
        return Size(*(max(values) for values in zip(*sizes, strict=True)))

    def vcpus(self) -> float:
        """Return how many vCPUs all its machines give it."""
        return sum(wish(job.container or {}).vcpus for job in self.containers)

    def summary(self) -> dict[str, int]:
        """Count the children of an array by state. DescribeJobs, arrayProperties.statusSummary."""
        counts = Counter(child.status for child in self.children)
        return {state: counts[state] for state in STATES}


def wish(container: Mapping[str, Any]) -> Size:
    """Return what one container asks for.

    resourceRequirements count; vcpus and memory are the deprecated way to say the same.
    """
    wish = {r["type"]: float(r["value"]) for r in container.get("resourceRequirements", ())}
    return Size(
        wish.get("VCPU", float(container.get("vcpus", 0))),
        wish.get("MEMORY", float(container.get("memory", 0))),
        int(wish.get("GPU", 0)),
    )


class Jobs:
    """All jobs, in the order in which they were submitted."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._needing: dict[str, list[Job]] = {}

    def add(self, job: Job) -> None:
        """Enter a job and its children."""
        for each in (job, *job.children):
            self._jobs[each.id] = each
            for need, _ in each.needs:
                self._needing.setdefault(need, []).append(each)

    def needing(self, job_id: str) -> list[Job]:
        """Return the jobs that wait, or waited, for another."""
        return self._needing.get(job_id, [])

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

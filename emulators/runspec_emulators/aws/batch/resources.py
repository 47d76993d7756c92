"""Records of compute environments, job queues and job definitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runspec_emulators.aws.batch.jobs import Job
from runspec_emulators.aws.nodes.instances import Instance

FARGATE = ("FARGATE", "FARGATE_SPOT")


@dataclass
class Environment:
    """A compute environment."""

    name: str
    arn: str
    params: dict[str, Any]
    status: str = "CREATING"
    reason: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    """The vCPUs of the jobs that it runs without instances, by job id."""
    instances: list[Instance] = field(default_factory=list)

    @property
    def state(self) -> str:
        return str(self.params.get("state", "ENABLED"))

    @property
    def resources(self) -> Mapping[str, Any]:
        return self.params.get("computeResources") or {}

    @property
    def kind(self) -> str:
        return str(self.resources.get("type", "UNMANAGED"))

    @property
    def has_no_instances(self) -> bool:
        """Whether AWS Batch starts no instances for it, as for Fargate and for UNMANAGED environments."""
        return self.kind in (*FARGATE, "UNMANAGED")

    @property
    def max_vcpus(self) -> float:
        return float(self.resources.get("maxvCpus", float("inf")))

    def free_vcpus(self) -> float:
        return self.max_vcpus - sum(self.used.values())


@dataclass
class Queue:
    """A job queue, and the jobs that wait in it for a machine, first come first."""

    name: str
    arn: str
    params: dict[str, Any]
    status: str = "CREATING"
    reason: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    waiting: deque[Job] = field(default_factory=deque)
    blocked: tuple[str, str, float] | None = None
    """Which job is stuck at its head, why, and since when."""

    @property
    def state(self) -> str:
        return str(self.params.get("state", "ENABLED"))

    @property
    def order(self) -> list[str]:
        """Return the names of its environments, in the order in which they are tried."""
        entries = sorted(self.params["computeEnvironmentOrder"], key=lambda e: e["order"])
        return [named(entry["computeEnvironment"]) for entry in entries]


def named(name_or_arn: str) -> str:
    """Return the name at the end of an ARN; a plain name is returned as it is."""
    return name_or_arn.rpartition("/")[2]


@dataclass
class Definition:
    """One revision."""

    name: str
    revision: int
    arn: str
    params: dict[str, Any]
    status: str = "ACTIVE"
    tags: dict[str, str] = field(default_factory=dict)

"""The content of an account: pools and their nodes, jobs and their tasks, and the attempts of tasks."""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators.azure_batch.processes.commands import Command
from runspec_emulators.azure_batch.resource import Resource, now

TARGETS = ("targetDedicatedNodes", "targetLowPriorityNodes")
# Below the root folder: https://learn.microsoft.com/en-us/azure/batch/files-and-directories
STARTUP, SHARED, MOUNTS, WORK = "startup", "shared", "fsmounts", "workitems"
READY = ("idle", "running")
POOL_DEFAULTS = {
    "taskSlotsPerNode": 1,
    "enableInterNodeCommunication": False,
    "taskSchedulingPolicy": {"nodeFillType": "spread"},
    "resizeTimeout": "PT15M",
}
JOB_DEFAULTS = {
    "priority": 0,
    "onAllTasksComplete": "noaction",
    "onTaskFailure": "noaction",
    "usesTaskDependencies": False,
    "allowTaskPreemption": False,
    "maxParallelTasks": -1,
}
TASK_DEFAULTS = {
    "requiredSlots": 1,
    "userIdentity": {"autoUser": {"elevationLevel": "nonadmin"}},
}


class Pool(Resource):
    """One pool and its nodes, by id."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["id"], "active")
        self.body = {**POOL_DEFAULTS, **body}
        self.nodes: dict[str, Node] = {}
        self.made = 0
        self.targets = {name: body.get(name, 0) for name in TARGETS}
        self.allocation, self.allocated_at = "steady", now()
        self.resize_errors: list[dict[str, Any]] = []
        self.option = "requeue"
        self.turn = 0
        """Counts resizes: what was due for an older one is not done."""
        self.clock = 0
        """Counts formulas, for their timers."""
        self.run: dict[str, Any] | None = None
        """autoScaleRun."""
        self.enabled_s = -math.inf
        """When autoscale was enabled last."""
        self.incarnation = 1
        """The `DocumentIncarnation` of scheduled events."""
        self.samples: list[tuple[float, dict[str, float]]] = []

    @property
    def slots(self) -> int:
        return int(self.body["taskSlotsPerNode"])

    @property
    def identities(self) -> list[str]:
        """Return the ids of its user-assigned identities."""
        given = self.body.get("identity", {}).get("userAssignedIdentities", ())
        return [identity["resourceId"] for identity in given]

    @property
    def contained(self) -> bool:
        return "containerConfiguration" in self.body.get("virtualMachineConfiguration", {})

    def count(self, dedicated: bool) -> int:
        return sum(n.dedicated == dedicated for n in self.nodes.values())

    def shown(self, url: str) -> dict[str, Any]:
        """BatchPool of the service's description, which has no previous state."""
        hidden = ("id", *TARGETS)
        stamps = {k: v for k, v in self.stamps(url).items() if not k.startswith("previous")}
        fields = {**stamps, **{k: v for k, v in self.body.items() if k not in hidden}}
        fields |= {
            "allocationState": self.allocation,
            "allocationStateTransitionTime": self.allocated_at,
            "currentDedicatedNodes": self.count(dedicated=True),
            "currentLowPriorityNodes": self.count(dedicated=False),
            "enableAutoScale": self.body.get("enableAutoScale", False),
            **self.targets,
        }
        if fields["enableAutoScale"]:
            fields.pop("resizeTimeout", None)
        if self.resize_errors:
            fields["resizeErrors"] = self.resize_errors
        if self.run:
            fields["autoScaleRun"] = self.run
        return fields


class Node(Resource):
    """One machine."""

    def __init__(self, pool: Pool, name: str, number: int, dedicated: bool, root: Path) -> None:
        super().__init__(name, "creating")
        self.pool = pool
        self.number = number
        self.dedicated = dedicated
        self.root = root
        self.address = f"127.0.{1 + number // 250}.{1 + number % 250}"
        self.attempts: list[Attempt] = []
        self.leaving: str | None = None
        """The deallocation option of a node that is being removed; None for other nodes."""
        self.prepared: dict[str, dict[str, Any]] = {}
        """The result of the job preparation task on this node, by job."""
        self.preparing = threading.Lock()
        self.start_info: dict[str, Any] | None = None
        self.start: Command | None = None
        self.errors: list[dict[str, Any]] = []
        self.event: dict[str, Any] | None = None
        """The event that is scheduled for its machine: see `metadata`."""
        self.token = secrets.token_urlsafe()
        """The part of the path of its metadata that nobody else knows."""
        self.asked = 0
        """The number of requests for its metadata."""
        self.recent: list[dict[str, Any]] = []
        self.total = 0
        self.login: Mapping[str, str] = {}
        """By what variables programs on it find its identities."""

    @property
    def free(self) -> int:
        """The number of free task slots."""
        if self.state not in READY or self.leaving:
            return 0
        return int(self.pool.slots) - sum(a.slots for a in self.attempts)

    def folder(self, name: str) -> Path:
        return self.root / name

    def settle(self) -> None:
        """Set the state: running while the node has a task, otherwise idle."""
        if self.state in READY:
            self.move("running" if self.attempts else "idle")

    def shown(self, url: str) -> dict[str, Any]:
        """ComputeNode of the service's description."""
        fields = {k: v for k, v in self.stamps(url).items() if k in ("id", "url", "state")}
        fields |= {
            "stateTransitionTime": self.moved,
            "lastBootTime": self.created,
            "allocationTime": self.created,
            "ipAddress": self.address,
            "ipv6Address": f"::ffff:{self.address}",
            "affinityId": f"TVM:{self.id}",
            "vmSize": self.pool.body["vmSize"],
            "totalTasksRun": self.total,
            "runningTasksCount": len(self.attempts),
            "runningTaskSlotsCount": sum(a.slots for a in self.attempts),
            "totalTasksSucceeded": sum(
                r["executionInfo"].get("exitCode") == 0 for r in self.recent
            ),
            "isDedicated": self.dedicated,
            "schedulingState": "enabled",
            "recentTasks": self.recent[-10:],
        }
        machine = self.pool.body["virtualMachineConfiguration"]
        fields["virtualMachineInfo"] = {"imageReference": machine["imageReference"]}
        if self.pool.body.get("startTask"):
            fields["startTask"] = self.pool.body["startTask"]
            if self.start_info:
                fields["startTaskInfo"] = self.start_info
        if self.errors:
            fields["errors"] = self.errors
        return fields


class Job(Resource):
    """One job and its tasks, by id."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["id"], "active")
        self.body = {**JOB_DEFAULTS, **body}
        limits = {"maxWallClockTime": "P10675199DT2H48M5.4775807S", "maxTaskRetryCount": 0}
        self.body["constraints"] = {**limits, **body.get("constraints", {})}
        self.tasks: dict[str, Task] = {}
        self.info: dict[str, Any] = {"startTime": self.created, "poolId": self.pool_id}

    @property
    def pool_id(self) -> str:
        return str(self.body["poolInfo"].get("poolId", ""))

    def shown(self, url: str) -> dict[str, Any]:
        """BatchJob of the service's description."""
        return {**self.stamps(url), **self.body, "executionInfo": dict(self.info)}


class Attempt:
    """One placing of a task on nodes, the first of which has the primary."""

    def __init__(self, task: Task, nodes: list[Node], number: int) -> None:
        self.task = task
        self.nodes = nodes
        self.number = number
        self.slots = int(task.body["requiredSlots"])
        self.commands: list[Command] = []
        self.verdict: str | None = None
        """Why it was cut short: preempted, requeue, node-terminated, terminated, timeout, deleted,
        closed, subtask. The first reason stands."""
        self.exit_codes: list[int | None] = [None] * len(nodes)
        self.ended: str | None = None

    def is_cut(self) -> bool:
        return self.verdict is not None

    def cut(self, why: str) -> None:
        """End the attempt early, for the reason *why*."""
        if self.verdict is None:
            self.verdict = why
        for command in list(self.commands):
            command.kill()

    def folder(self, node: Node) -> Path:
        return node.folder(WORK) / self.task.job.id / "job-1" / self.task.id


class Task(Resource):
    """One task of a job."""

    def __init__(self, job: Job, body: dict[str, Any]) -> None:
        super().__init__(body["id"], "active")
        self.job = job
        self.body = {**TASK_DEFAULTS, **body}
        limits = {"maxWallClockTime": "P10675199DT2H48M5.4775807S", "retentionTime": "P7D"}
        limits |= {"maxTaskRetryCount": job.body.get("constraints", {}).get("maxTaskRetryCount", 0)}
        self.body["constraints"] = {**limits, **body.get("constraints", {})}
        self.info: dict[str, Any] = {"retryCount": 0, "requeueCount": 0}
        self.attempts: list[Attempt] = []
        self.ready_at = 0.0
        """When it may be placed, by the monotonic clock."""

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that is under way."""
        last = self.attempts[-1] if self.attempts else None
        return last if last and last.ended is None else None

    @property
    def instances(self) -> int:
        settings = self.body.get("multiInstanceSettings")
        return int(settings.get("numberOfInstances", 1)) if settings else 1

    def node_info(self, index: int = 0) -> dict[str, Any] | None:
        """Return where it ran last, or runs: BatchTaskNodeInfo."""
        if not self.attempts:
            return None
        node = self.attempts[-1].nodes[index]
        root = f"{WORK}/{self.job.id}/job-1/{self.id}"
        return {
            "affinityId": f"TVM:{node.id}",
            "nodeUrl": f"{node.pool.id}/nodes/{node.id}",
            "poolId": node.pool.id,
            "nodeId": node.id,
            "taskRootDirectory": root,
        }

    def shown(self, url: str) -> dict[str, Any]:
        """BatchTask of the service's description."""
        fields = {**self.stamps(url), **self.body, "executionInfo": dict(self.info)}
        info = self.node_info()
        if info is not None and self.state != "active":
            fields["nodeInfo"] = info
        return fields

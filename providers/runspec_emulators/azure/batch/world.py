"""All that the stand-in holds, and the table of what it can do."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

from runspec_emulators.azure.batch import (
    accounts,
    files,
    jobs,
    machines,
    placing,
    pools,
    requests,
    scaling,
    tasks,
)
from runspec_emulators.azure.batch.answers import Answer
from runspec_emulators.azure.batch.errors import ServiceError
from runspec_emulators.azure.batch.jobs import Job
from runspec_emulators.azure.batch.pools import Pool
from runspec_emulators.azure.batch.requests import Request
from runspec_emulators.azure.batch.running import Runner
from runspec_emulators.azure.batch.settings import Settings
from runspec_emulators.azure.batch.tasks import Attempt, Task
from runspec_emulators.azure.batch.things import Thing
from runspec_emulators.azure.identity import Identity
from runspec_emulators.timers import Timers

CLOSE_S = 15.0  # how long `close` waits for what it has killed


class World:
    """The state of the service. `lock` guards it."""

    def __init__(self, settings: Settings, url: str, identity: Identity | None = None) -> None:
        self.settings = settings
        self.identity = identity
        self.url = url
        self.lock = threading.RLock()
        self.timers = Timers(self.lock)
        self.pools: dict[str, Pool] = {}
        self.jobs: dict[str, Job] = {}
        self.runner = Runner(self)
        self.closed = False
        self._numbers = itertools.count()

    def next_number(self) -> int:
        """Give the number of a new node."""
        return next(self._numbers)

    def answer(self, request: Request) -> Answer:
        """Do what a request asks for; raise ServiceError where the service would refuse."""
        operation = OPERATIONS.get(request.operation.name)
        if operation is None:
            message = f"{request.operation.name} is not rehearsed here"
            raise ServiceError("InvalidInput", message)
        requests.check(request, self.settings.api_versions)
        with self.lock:
            self._met(request)
            return operation(self, request)

    def _met(self, request: Request) -> None:
        """Raise ServiceError where a condition in a header is not met: "If-Match" and "If-None-Match"."""
        match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
        if match is None and none is None:
            return
        path = request.path
        thing: Thing = (
            self.task(path)
            if "task_id" in path
            else self.job(path["job_id"])
            if "job_id" in path
            else self.pool(path["pool_id"])
        )
        tag = thing.etag
        if (match not in (None, "*") and str(match).strip('"') != tag) or (
            none is not None and none.strip('"') in ("*", tag)
        ):
            raise ServiceError("ConditionNotMet", "The condition specified is not met.")

    def pool(self, name: str) -> Pool:
        """Ids are "case-preserving and case-insensitive"."""
        found = self.pools.get(name.lower())
        if found is None:
            raise ServiceError("PoolNotFound", "The specified pool does not exist.")
        return found

    def job(self, name: str) -> Job:
        found = self.jobs.get(name.lower())
        if found is None:
            raise ServiceError("JobNotFound", "The specified job does not exist.")
        return found

    def task(self, path: Mapping[str, str]) -> Task:
        found = self.job(path["job_id"]).tasks.get(path["task_id"].lower())
        if found is None:
            raise ServiceError("TaskNotFound", "The specified task does not exist.")
        return found

    def pool_url(self, pool: Pool) -> str:
        return f"{self.url}/pools/{pool.id}"

    def job_url(self, job: Job) -> str:
        return f"{self.url}/jobs/{job.id}"

    def task_url(self, task: Task) -> str:
        return f"{self.url}/jobs/{task.job.id}/tasks/{task.id}"

    def tags(self, thing: Thing) -> dict[str, str]:
        """Give the headers that say which version of a thing was answered with."""
        return {"ETag": f'"{thing.etag}"', "Last-Modified": formatdate(usegmt=True)}

    def made(self, thing: Thing, url: str) -> dict[str, str]:
        return {**self.tags(thing), "Location": url, "DataServiceId": url}

    def place(self) -> None:
        """Start what can start; the lock is held."""
        if not self.closed:
            placing.place(self)

    def left(self, attempt: Attempt) -> None:
        """Note that an attempt's nodes are free; the lock is held."""
        for node in attempt.nodes:
            if node.leaving:
                scaling.drop(self, node)
        self.place()

    def later(self, what: Callable[[], Any]) -> None:
        """Have something done in a thread of its own."""
        threading.Thread(target=what, daemon=True).start()

    def close(self) -> None:
        """End every process of every task, and nothing happens any more."""
        with self.lock:
            self.closed = True
            for attempt in self.under_way():
                attempt.cut("closed")
            for pool in self.pools.values():
                for node in pool.nodes.values():
                    if node.start:
                        node.start.kill()
        self.timers.close()
        end = time.monotonic() + CLOSE_S
        while self.under_way() and time.monotonic() < end:
            time.sleep(0.01)

    def under_way(self) -> list[Attempt]:
        """Give the attempts that have not ended."""
        with self.lock:
            found = [t.attempt for j in self.jobs.values() for t in j.tasks.values()]
            return [a for a in found if a is not None]


Operation = Callable[[World, Request], Answer]

OPERATIONS: dict[str, Operation] = {
    "Account_ListPoolNodeCounts": pools.counts,
    "Account_ListSupportedImages": accounts.images,
    "ComputeNode_Get": machines.show,
    "ComputeNode_List": machines.listed,
    "ComputeNode_Reboot": machines.reboot,
    "File_DeleteFromComputeNode": files.delete,
    "File_DeleteFromTask": files.delete,
    "File_GetFromComputeNode": files.get,
    "File_GetFromTask": files.get,
    "File_GetPropertiesFromComputeNode": files.head,
    "File_GetPropertiesFromTask": files.head,
    "File_ListFromComputeNode": files.listed,
    "File_ListFromTask": files.listed,
    "Job_Add": jobs.add,
    "Job_Delete": jobs.delete,
    "Job_Disable": jobs.disable,
    "Job_Enable": jobs.enable,
    "Job_Get": jobs.show,
    "Job_GetTaskCounts": tasks.counts,
    "Job_List": jobs.listed,
    "Job_ListPreparationAndReleaseTaskStatus": jobs.preparations,
    "Job_Patch": jobs.patch,
    "Job_Terminate": jobs.terminate,
    "Pool_Add": pools.add,
    "Pool_Delete": pools.delete,
    "Pool_DisableAutoScale": pools.disable_autoscale,
    "Pool_EnableAutoScale": pools.enable_autoscale,
    "Pool_EvaluateAutoScale": pools.evaluate_autoscale,
    "Pool_Exists": pools.exists,
    "Pool_Get": pools.show,
    "Pool_List": pools.listed,
    "Pool_Patch": pools.patch,
    "Pool_RemoveNodes": pools.remove_nodes,
    "Pool_Resize": pools.resize,
    "Pool_StopResize": pools.stop_resize,
    "Task_Add": tasks.add,
    "Task_AddCollection": tasks.add_collection,
    "Task_Delete": tasks.delete,
    "Task_Get": tasks.show,
    "Task_List": tasks.listed,
    "Task_ListSubtasks": tasks.subtasks,
    "Task_Reactivate": tasks.reactivate,
    "Task_Terminate": tasks.terminate,
    "Task_Update": tasks.update,
}

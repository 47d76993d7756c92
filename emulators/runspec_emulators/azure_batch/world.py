"""The state of the service."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any, Protocol

from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.model import Attempt, Job, Pool, Task
from runspec_emulators.azure_batch.resource import Resource
from runspec_emulators.azure_batch.settings import Settings
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.frame.timers import Timers

CLOSE_S = 15.0  # how long `close` waits for what it has killed


class TaskRunner(Protocol):
    """The part that starts and ends tasks. The caller of each method holds the lock of the world."""

    def place(self) -> None:
        """Start each task that can start."""

    def terminate(self, task: Task) -> None:
        """End a task by request."""

    def delete(self, task: Task) -> None:
        """Remove a task and its files."""


class World:
    """The state of the service. `lock` guards it."""

    runner: TaskRunner

    def __init__(self, settings: Settings, url: str, identity: Identity | None = None) -> None:
        self.settings = settings
        self.identity = identity
        self.url = url
        self.lock = threading.RLock()
        self.timers = Timers(self.lock)
        self.pools: dict[str, Pool] = {}
        self.jobs: dict[str, Job] = {}
        self.resources: dict[
            str, dict[str, Any]
        ] = {}  # of the Resource Manager, by id in lower case
        self.closed = False
        self._numbers = itertools.count()

    def next_number(self) -> int:
        """Return the number of a new node."""
        return next(self._numbers)

    def pool(self, name: str) -> Pool:
        """Ids are "case-preserving and case-insensitive"."""
        pool = self.pools.get(name.lower())
        if pool is None:
            raise ServiceError("PoolNotFound", "The specified pool does not exist.")
        return pool

    def job(self, name: str) -> Job:
        job = self.jobs.get(name.lower())
        if job is None:
            raise ServiceError("JobNotFound", "The specified job does not exist.")
        return job

    def task(self, path: Mapping[str, str]) -> Task:
        task = self.job(path["job_id"]).tasks.get(path["task_id"].lower())
        if task is None:
            raise ServiceError("TaskNotFound", "The specified task does not exist.")
        return task

    def pool_url(self, pool: Pool) -> str:
        return f"{self.url}/pools/{pool.id}"

    def job_url(self, job: Job) -> str:
        return f"{self.url}/jobs/{job.id}"

    def task_url(self, task: Task) -> str:
        return f"{self.url}/jobs/{task.job.id}/tasks/{task.id}"

    def tags(self, resource: Resource) -> dict[str, str]:
        """Return the headers that say which version of a resource was answered with."""
        return {"ETag": f'"{resource.etag}"', "Last-Modified": formatdate(usegmt=True)}

    def made(self, resource: Resource, url: str) -> dict[str, str]:
        return {**self.tags(resource), "Location": url, "DataServiceId": url}

    def place(self) -> None:
        """Start what can start; the lock is held."""
        if not self.closed:
            self.runner.place()

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
        """Return the attempts that have not ended."""
        with self.lock:
            attempts = [t.attempt for j in self.jobs.values() for t in j.tasks.values()]
            return [a for a in attempts if a is not None]

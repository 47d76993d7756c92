"""The state of AWS Batch in one region, and the logs of its jobs."""

from __future__ import annotations

import itertools
import threading
import time

from runspec_emulators.aws.batch.jobs import Attempt, Job, Jobs
from runspec_emulators.aws.batch.resources import Definition, Environment, Queue
from runspec_emulators.aws.log_store import Logs
from runspec_emulators.aws.nodes.engine import Running
from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame.server import Addresses
from runspec_emulators.frame.timers import Timers

CLOSE_S = 15.0  # how long `close` waits for containers that it has killed


class World:
    """The state of both services. `lock` guards everything but the logs, which guard themselves."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.settings = settings
        self.url = url
        self.lock = threading.RLock()
        self.timers = Timers(self.lock)
        self.environments: dict[str, Environment] = {}
        self.queues: dict[str, Queue] = {}
        self.definitions: dict[str, list[Definition]] = {}
        self.jobs = Jobs()
        self.tasks: dict[str, tuple[Job, Attempt]] = {}
        self.addresses = Addresses()
        self.logs = Logs(lambda: self.settings, settings.seed)
        self._numbers = itertools.count(1)

    def arn(self, resource: str, service: str = "batch") -> str:
        """Return the ARN of a resource."""
        return self.settings.arn(resource, service)

    def next_number(self) -> int:
        return next(self._numbers)

    def close(self) -> None:
        """End every process of every job, and nothing happens any more."""
        self.timers.close()
        with self.lock:
            for job in self.jobs:
                job.terminated = True  # so that no end of a container starts another
        for container in self.running():
            container.kill()
        end = time.monotonic() + CLOSE_S
        while self.running() and time.monotonic() < end:
            time.sleep(0.01)

    def running(self) -> list[Running]:
        """Return the containers that run."""
        with self.lock:
            return [a.running for job in self.jobs for a in job.attempts if a.running]

"""All that the stand-in holds, and the table of what it can do."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from runspec_emulators.aws import (
    definitions,
    describe,
    environments,
    limits,
    listing,
    models,
    reading,
    submit,
    tagging,
)
from runspec_emulators.aws.definitions import Definition
from runspec_emulators.aws.engine import Running
from runspec_emulators.aws.environments import Environment, Queue
from runspec_emulators.aws.errors import ServiceError, refused
from runspec_emulators.aws.jobs import Attempt, Job, Jobs
from runspec_emulators.aws.logs import Logs
from runspec_emulators.aws.models import Request
from runspec_emulators.aws.schedule import Scheduler
from runspec_emulators.aws.settings import Settings
from runspec_emulators.timers import Timers

MOST_NEW = 250
CLOSE_S = 15.0  # how long `close` waits for containers that it has killed


class Addresses:
    """Loopback addresses for nodes and children: 127.0.0.2 and on.

    Another machine has another address, so one that is free again is used when there are no new ones.
    """

    def __init__(self) -> None:
        self._free: deque[int] = deque()
        self._new = itertools.count(2)
        self._taken: set[int] = set()

    def take(self) -> str:
        old = len(self._taken) + len(self._free) >= MOST_NEW and self._free
        number = self._free.popleft() if old else next(self._new)
        self._taken.add(number)
        return f"127.0.{number // 256}.{number % 256}"

    def give_back(self, address: str) -> None:
        """Take back what was taken; no other address changes anything."""
        high, low = address.split(".")[2:]
        number = int(high) * 256 + int(low)
        if number in self._taken:
            self._taken.remove(number)
            self._free.append(number)


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
        self.scheduler = Scheduler(self)
        self._numbers = itertools.count(1)

    def arn(self, resource: str, service: str = "batch") -> str:
        """Give the ARN of a resource."""
        return f"arn:aws:{service}:{self.settings.region}:{self.settings.account}:{resource}"

    def next_number(self) -> int:
        return next(self._numbers)

    def answer(self, request: Request) -> dict[str, Any]:
        """Do what a request asks for; raise ServiceError where the service would refuse."""
        models.check(request)
        operation = OPERATIONS[request.service].get(request.operation)
        if request.service == "logs":
            if operation is None:
                message = f"{request.operation} is not rehearsed here"
                raise ServiceError("InvalidParameterException", message)
            return operation(self, request.params)
        limits.check(request, self.settings)
        if operation is None:
            raise refused(f"{request.operation} is not rehearsed here")
        with self.lock:
            return operation(self, request.params)

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
        """Give the containers that run."""
        with self.lock:
            return [a.running for job in self.jobs for a in job.attempts if a.running]


Operation = Callable[[World, dict[str, Any]], dict[str, Any]]

OPERATIONS: dict[str, dict[str, Operation]] = {
    "batch": {
        "CancelJob": submit.cancel,
        "CreateComputeEnvironment": environments.create_environment,
        "CreateJobQueue": environments.create_queue,
        "DeleteComputeEnvironment": environments.delete_environment,
        "DeleteJobQueue": environments.delete_queue,
        "DeregisterJobDefinition": definitions.deregister,
        "DescribeComputeEnvironments": environments.describe_environments,
        "DescribeJobDefinitions": definitions.describe,
        "DescribeJobQueues": environments.describe_queues,
        "DescribeJobs": describe.describe,
        "ListJobs": listing.listed,
        "ListTagsForResource": tagging.tags_listed,
        "RegisterJobDefinition": definitions.register,
        "SubmitJob": submit.submit,
        "TagResource": tagging.tag,
        "TerminateJob": submit.terminate,
        "UntagResource": tagging.untag,
        "UpdateComputeEnvironment": environments.update_environment,
        "UpdateJobQueue": environments.update_queue,
    },
    "logs": {
        "CreateLogGroup": reading.create_group,
        "CreateLogStream": reading.create_stream,
        "DeleteLogGroup": reading.delete_group,
        "DeleteLogStream": reading.delete_stream,
        "DescribeLogGroups": reading.describe_groups,
        "DescribeLogStreams": reading.describe_streams,
        "FilterLogEvents": reading.filter_events,
        "GetLogEvents": reading.get_events,
        "PutLogEvents": reading.put_events,
        "PutRetentionPolicy": reading.put_retention,
    },
}
